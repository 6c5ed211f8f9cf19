//! Clock rates of the hosts of the platforms of Kondo et al. 2004 (section 3.2) and of two later
//! ones. Availability is the same on every platform, as in the paper: a platform only transforms
//! the clocks, so the n-th fastest host of one platform is the n-th fastest of each.

mod law;
pub mod sizes;

use law::{ClockLaw, INTERNET_2004, INTERNET_2016, LAB, LRI_WISC, SDSC};

use crate::availability::stream::RandomStream;

/// The number of hosts of each platform of Kondo et al. 2004 (section 3.2).
pub const HOSTS: usize = 220;

/// A set of hosts, given by the law of their clock rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Platform {
    name: &'static str,
    law: ClockLaw,
}

const PLATFORMS: [Platform; 6] = [
    Platform {
        name: "sdsc",
        law: SDSC,
    },
    Platform {
        name: "gimps",
        law: INTERNET_2004,
    },
    Platform {
        name: "lri-wisc",
        law: LRI_WISC,
    },
    Platform {
        name: "homogeneous",
        law: ClockLaw::Normal {
            mean: 3_200.0,
            sd: 170.0,
        },
    },
    Platform {
        name: "internet-2016",
        law: INTERNET_2016,
    },
    Platform {
        name: "lab",
        law: LAB,
    },
];

impl Platform {
    /// The names that [`Platform::named`] knows: the paper's four platforms, volunteers' hosts of
    /// 2016, and a university's lab.
    pub const NAMES: [&'static str; 6] = {
        let mut names = [""; 6];
        let mut at = 0;
        while at < names.len() {
            names[at] = PLATFORMS[at].name;
            at += 1;
        }
        names
    };

    /// Returns the platform of this name.
    pub fn named(name: &str) -> Option<Self> {
        PLATFORMS.into_iter().find(|platform| platform.name == name)
    }

    /// The name by which [`Platform::named`] finds it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Draws the clock rates of `hosts` hosts, in MHz. The seed decides how fast each host is, and
    /// the details of the law.
    pub fn clocks_mhz(&self, seed: u64, hosts: usize) -> Vec<f64> {
        let mut sorted = self
            .law
            .sorted(&mut RandomStream::new(self.name, seed, 0, 0), hosts)
            .into_iter();
        let mut clocks_mhz = vec![0.0; hosts];
        for host in order(seed, hosts) {
            clocks_mhz[host] = sorted.next().unwrap_or_default();
        }
        clocks_mhz
    }
}

/// The order of the hosts from the slowest to the fastest, the same on every platform.
fn order(seed: u64, hosts: usize) -> Vec<usize> {
    let mut stream = RandomStream::new("clock-order", seed, 0, 0);
    let mut keyed: Vec<_> = (0..hosts).map(|host| (stream.unit(), host)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, host)| host).collect()
}
