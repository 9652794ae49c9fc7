//! Power domains: shader cores, tiler, L2 and core stacks power up and down with a transition in between.

use crate::model::ModelData;

/// Virtual time of a power transition, ns. It is longer than a driver needs to read the transition registers once.
const TRANSITION_NS: u64 = 20_000;

/// Group of cores with its own power registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Shader,
    Tiler,
    L2,
    Stack,
}

const DOMAINS: [Domain; 4] = [Domain::Shader, Domain::Tiler, Domain::L2, Domain::Stack];

/// Kind of power register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerRegister {
    Present,
    Ready,
    On,
    Off,
    Transition,
    Active,
}

/// Decodes an offset into the domain, the kind of register, and whether it is the high half.
pub(crate) fn decode(offset: u32) -> Option<(Domain, PowerRegister, bool)> {
    let high = match offset & 0xf {
        0 => false,
        4 => true,
        _ => return None,
    };
    let row = |base: u32| match base {
        0x100 | 0xe00 => Some(PowerRegister::Present),
        0x140 | 0xe10 => Some(PowerRegister::Ready),
        0x180 | 0xe20 => Some(PowerRegister::On),
        0x1c0 | 0xe30 => Some(PowerRegister::Off),
        0x200 | 0xe40 => Some(PowerRegister::Transition),
        0x240 => Some(PowerRegister::Active),
        _ => None,
    };
    let start = offset & !0xf;
    if start >= 0xe00 {
        return row(start).map(|r| (Domain::Stack, r, high));
    }
    let domain = match start & 0x30 {
        0x00 => Domain::Shader,
        0x10 => Domain::Tiler,
        0x20 => Domain::L2,
        _ => return None,
    };
    row(start & !0x30).map(|r| (domain, r, high))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    present: u64,
    ready: u64,
    rising: u64,
    falling: u64,
}

impl State {
    fn switch_on(&mut self, cores: u64) -> bool {
        let cores = cores & self.present;
        // A core that was powering down powers up again.
        self.falling &= !cores;
        let new = cores & !self.ready & !self.rising;
        self.rising |= new;
        new != 0
    }

    fn switch_off(&mut self, cores: u64) -> bool {
        self.rising &= !cores;
        let new = cores & self.ready & !self.falling;
        self.falling |= new;
        new != 0
    }

    fn settle(&mut self) {
        self.ready = (self.ready | self.rising) & !self.falling;
        self.rising = 0;
        self.falling = 0;
    }
}

/// Power state of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Power {
    shader: State,
    tiler: State,
    l2: State,
    stack: State,
    /// Time at which the running transitions end.
    pub settles_at: Option<u64>,
}

impl Power {
    /// Creates the state in which everything is off.
    pub(crate) fn new(model: &ModelData) -> Self {
        let off = |present| State {
            present,
            ..State::default()
        };
        Self {
            shader: off(model.shader_present),
            tiler: off(model.tiler_present),
            l2: off(model.l2_present),
            stack: off(model.stack_present),
            settles_at: None,
        }
    }

    fn state(&self, domain: Domain) -> &State {
        match domain {
            Domain::Shader => &self.shader,
            Domain::Tiler => &self.tiler,
            Domain::L2 => &self.l2,
            Domain::Stack => &self.stack,
        }
    }

    fn state_mut(&mut self, domain: Domain) -> &mut State {
        match domain {
            Domain::Shader => &mut self.shader,
            Domain::Tiler => &mut self.tiler,
            Domain::L2 => &mut self.l2,
            Domain::Stack => &mut self.stack,
        }
    }

    /// Returns the cores that are on.
    pub(crate) fn ready(&self, domain: Domain) -> u64 {
        self.state(domain).ready
    }

    /// Returns whether any core is in transition.
    pub(crate) fn in_transition(&self) -> bool {
        DOMAINS
            .iter()
            .any(|d| self.state(*d).rising | self.state(*d).falling != 0)
    }

    /// Returns the 64-bit value of a readable register.
    pub(crate) fn value(&self, domain: Domain, row: PowerRegister) -> Option<u64> {
        let s = self.state(domain);
        Some(match row {
            PowerRegister::Present => s.present,
            PowerRegister::Ready => s.ready,
            PowerRegister::Transition => s.rising | s.falling,
            PowerRegister::Active | PowerRegister::On | PowerRegister::Off => return None,
        })
    }

    /// Powers cores up. Shader cores and the tiler access memory through the L2, so the L2 powers up with them.
    pub(crate) fn switch_on(&mut self, domain: Domain, cores: u64, now: u64) {
        let wanted = cores & self.state(domain).present;
        let mut moving = self.state_mut(domain).switch_on(cores);
        if matches!(domain, Domain::Shader | Domain::Tiler) && wanted != 0 {
            moving |= self.l2.switch_on(u64::MAX);
        }
        if moving {
            self.settles_at = Some(now.saturating_add(TRANSITION_NS));
        }
    }

    /// Powers cores down. Units that need the L2 power down with it.
    pub(crate) fn switch_off(&mut self, domain: Domain, cores: u64, now: u64) {
        let mut moving = self.state_mut(domain).switch_off(cores);
        if domain == Domain::L2 && cores & self.l2.present != 0 {
            moving |= self.shader.switch_off(u64::MAX);
            moving |= self.tiler.switch_off(u64::MAX);
        }
        if moving {
            self.settles_at = Some(now.saturating_add(TRANSITION_NS));
        }
    }

    /// Ends the running transitions.
    pub(crate) fn settle(&mut self) {
        self.settles_at = None;
        for d in DOMAINS {
            self.state_mut(d).settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    #[test]
    fn offsets_decode_to_rows() {
        assert_eq!(decode(0x100), Some((Domain::Shader, PowerRegister::Present, false)));
        assert_eq!(decode(0x164), Some((Domain::L2, PowerRegister::Ready, true)));
        assert_eq!(decode(0x190), Some((Domain::Tiler, PowerRegister::On, false)));
        assert_eq!(decode(0x1e0), Some((Domain::L2, PowerRegister::Off, false)));
        assert_eq!(decode(0x214), Some((Domain::Tiler, PowerRegister::Transition, true)));
        assert_eq!(decode(0x260), Some((Domain::L2, PowerRegister::Active, false)));
        assert_eq!(decode(0xe04), Some((Domain::Stack, PowerRegister::Present, true)));
        assert_eq!(decode(0xe40), Some((Domain::Stack, PowerRegister::Transition, false)));
        for hole in [0x000, 0x0c0, 0x108, 0x130, 0x280, 0x300, 0xe50, 0xf00, 0x1000] {
            assert_eq!(decode(hole), None, "{hole:#x}");
        }
    }

    #[test]
    fn l2_powers_up_and_down_with_the_tiler() {
        let mut p = Power::new(Model::G71.data());
        p.switch_on(Domain::Tiler, 1, 100);
        assert_eq!(p.value(Domain::L2, PowerRegister::Transition), Some(1));
        assert_eq!(p.value(Domain::Tiler, PowerRegister::Transition), Some(1));
        assert_eq!(p.ready(Domain::L2), 0);
        assert_eq!(p.settles_at, Some(100 + TRANSITION_NS));
        p.settle();
        assert_eq!(
            (p.ready(Domain::L2), p.ready(Domain::Tiler), p.ready(Domain::Shader)),
            (1, 1, 0)
        );
        p.switch_on(Domain::Tiler, 1, 200);
        assert_eq!(p.settles_at, None, "a domain that is on must not power up again");
        p.switch_off(Domain::L2, 1, 300);
        p.settle();
        assert_eq!((p.ready(Domain::L2), p.ready(Domain::Tiler)), (0, 0));
    }

    #[test]
    fn missing_cores_do_not_power_on() {
        let mut p = Power::new(Model::G71.data());
        p.switch_on(Domain::Shader, 0xff00, 0);
        p.switch_on(Domain::Stack, u64::MAX, 0);
        assert_eq!(p.settles_at, None);
        p.switch_on(Domain::Shader, 0xffff, 0);
        p.settle();
        assert_eq!(p.ready(Domain::Shader), 0xff);
    }
}
