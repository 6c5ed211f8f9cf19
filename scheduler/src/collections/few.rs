//! A list that mostly has one entry, which is stored inline: it needs no allocation, and reading it
//! costs no further memory access.

use std::collections::VecDeque;

/// A list with an inline first entry. Entries come and go cheaply at both ends.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    /// The entries behind the first one; `None` if there never were any. Boxed: the common case
    /// must stay pointer-sized.
    #[expect(
        clippy::box_collection,
        reason = "a deque takes four times the room of a pointer"
    )]
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Few<T> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        if at == 0 {
            self.first.as_ref()
        } else {
            self.rest.as_ref()?.get(at - 1)
        }
    }

    pub(crate) fn at_mut(&mut self, at: usize) -> Option<&mut T> {
        if at == 0 {
            self.first.as_mut()
        } else {
            self.rest.as_mut()?.get_mut(at - 1)
        }
    }

    /// Adds an entry before the one at index `at`, at most behind the last one.
    pub(crate) fn insert(&mut self, at: usize, entry: T) {
        if at > 0 && self.first.is_some() {
            let rest = self.rest.get_or_insert_default();
            rest.insert((at - 1).min(rest.len()), entry);
        } else if let Some(second) = self.first.replace(entry) {
            self.rest.get_or_insert_default().push_front(second);
        }
    }

    pub(crate) fn push(&mut self, entry: T) {
        self.insert(self.len(), entry);
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        if at > 0 {
            return self.rest.as_mut()?.remove(at - 1);
        }
        std::mem::replace(
            &mut self.first,
            self.rest.as_mut().and_then(|rest| rest.pop_front()),
        )
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first
            .iter()
            .chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first
            .iter_mut()
            .chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_what_a_list_does(steps in proptest::collection::vec((0..3_u8, 0..6_usize, any::<u8>()), 0..60)) {
            let mut few = Few::default();
            let mut model = Vec::new();
            for (step, at, value) in steps {
                match step {
                    0 => {
                        few.insert(at, value);
                        model.insert(at.min(model.len()), value);
                    }
                    1 => {
                        few.push(value);
                        model.push(value);
                    }
                    _ => prop_assert_eq!(few.remove(at), (at < model.len()).then(|| model.remove(at))),
                }

                prop_assert_eq!((few.len(), few.is_empty(), few.first()), (model.len(), model.is_empty(), model.first()));
                prop_assert_eq!(few.get(at), model.get(at));
                prop_assert_eq!(few.at_mut(at), model.get_mut(at));
                prop_assert!(few.iter().eq(&model) && few.iter_mut().eq(&model));
            }
        }
    }
}
