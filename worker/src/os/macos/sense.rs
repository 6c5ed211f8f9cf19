//! Readings of macOS about the owner: the time since the last input, and what the host runs on. Both come from calls
//! that any account may make, with or without a session of its own.
#![allow(unsafe_code)] // The calls of IOKit; every block says why it is sound.

use objc2_core_foundation::{CFArray, CFDictionary, CFNumber, CFRetained, CFString, CFType};
use objc2_io_kit::{
    IOObjectRelease, IOPSCopyPowerSourcesInfo, IOPSCopyPowerSourcesList,
    IOPSGetPowerSourceDescription, IOPSGetProvidingPowerSourceType,
    IORegistryEntryCreateCFProperty, IOServiceGetMatchingService, IOServiceMatching,
};

/// The port of the registry: the usual one.
const USUAL: u32 = 0;

/// Returns the time since the last input at a keyboard, mouse or the like, in nanoseconds, as the registry has it
/// (`HIDIdleTime`).
pub(crate) fn idle() -> Option<i64> {
    let key = CFString::from_static_str("HIDIdleTime");

    // SAFETY: the name is a C string. The search uses up the dictionary, and returns an object that is released
    // below, or 0. The property is ours, or none.
    let value = unsafe {
        let matching = IOServiceMatching(c"IOHIDSystem".as_ptr())?;
        let matching = CFRetained::cast_unchecked::<CFDictionary>(matching);
        let service = IOServiceGetMatchingService(USUAL, Some(matching));
        if service == 0 {
            return None;
        }
        let value = IORegistryEntryCreateCFProperty(service, Some(&key), None, 0);
        IOObjectRelease(service);
        value?
    };
    value.downcast_ref::<CFNumber>()?.as_i64()
}

/// Returns what feeds the host, by Apple's name of it, and the charge of its battery as now and at most.
pub(crate) fn power() -> Option<(String, Option<(i64, i64)>)> {
    let blob = IOPSCopyPowerSourcesInfo()?;
    // SAFETY: the blob is of the call that makes such.
    let (kind, list) = unsafe {
        let kind = IOPSGetProvidingPowerSourceType(Some(&blob))?;
        (kind, IOPSCopyPowerSourcesList(Some(&blob)))
    };
    let charge = list.and_then(|list| charge(&blob, &list));
    Some((kind.to_string(), charge))
}

/// Returns the charge of the first battery inside the host.
fn charge(blob: &CFType, list: &CFArray) -> Option<(i64, i64)> {
    // SAFETY: the list is documented to be of objects, which belong to the blob, and a description to be a
    // dictionary with strings for keys.
    let list = unsafe { list.cast_unchecked::<CFType>() };

    list.iter().find_map(|source| {
        let about = unsafe { IOPSGetPowerSourceDescription(Some(blob), Some(&source)) }?;
        let about = unsafe { about.cast_unchecked::<CFString, CFType>() };
        let value = |key| about.get(&CFString::from_static_str(key));
        let number = |key| value(key)?.downcast_ref::<CFNumber>()?.as_i64();
        let kind = value("Type")?.downcast_ref::<CFString>()?.to_string();
        (kind == "InternalBattery")
            .then(|| Some((number("Current Capacity")?, number("Max Capacity")?)))?
    })
}
