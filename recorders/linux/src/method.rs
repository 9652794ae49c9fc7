//! Methods that trace the accesses on this machine: mmiotrace, `rwmmio` events, or probes of accessors; and why one is
//! unavailable.

use crate::kernel::{Kernel, read_trimmed};
use crate::kernel_code;
use crate::probes::{self, Accessor};
use std::fmt;
use std::str::FromStr;

/// A method that traces the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The kernel's mmiotrace: every access of the kernel to memory that it maps during the trace. Only on x86.
    Mmiotrace,
    /// The kernel's `rwmmio` events: every access by the kernel's accessors, which covers registers but no frame
    /// buffers.
    Rwmmio,
    /// Probes of a driver's own accessors.
    Kprobes,
}

impl Method {
    /// All methods, the most complete first.
    pub const ALL: [Self; 3] = [Self::Mmiotrace, Self::Rwmmio, Self::Kprobes];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mmiotrace => "mmiotrace",
            Self::Rwmmio => "rwmmio",
            Self::Kprobes => "kprobes",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|m| m.name() == name);
        known.ok_or_else(|| format!("`{name}` is not a method (expected mmiotrace, rwmmio, kprobes)"))
    }
}

/// Availability of a method for a device on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// The method.
    pub method: Method,
    /// How it would trace the accesses, or why it cannot.
    pub availability: Result<String, String>,
}

/// The driver that a method is needed for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodQuery<'a> {
    /// Name of the driver.
    pub(crate) driver: &'a str,
    /// Its module; `None` if it is built into the kernel.
    pub(crate) module: Option<&'a str>,
    /// Accessors that the user named.
    pub(crate) accessors: &'a [Accessor],
    /// Patterns of functions that the user named.
    pub(crate) functions: &'a [String],
}

/// Returns the folder of the tracing files, or `None` if they are not mounted.
pub(crate) fn find_tracing_folder(kernel: &dyn Kernel) -> Option<&'static str> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    places
        .into_iter()
        .find(|p| kernel.exists(&format!("{p}/current_tracer")))
}

/// Returns the availability of each method for a driver.
pub(crate) fn list_abilities(kernel: &dyn Kernel, tracing: &str, sought: &MethodQuery<'_>) -> Vec<Ability> {
    let MethodQuery { driver, accessors, .. } = *sought;
    let (release, architecture) = kernel.release();
    let tracers = read_trimmed(kernel, &format!("{tracing}/available_tracers")).unwrap_or_default();
    let mmiotrace = match tracers.split_whitespace().any(|t| t == "mmiotrace") {
        true => Ok("every access of the kernel to memory that the driver maps".to_owned()),
        false if architecture == "x86_64" => Err(format!("the kernel {release} was built without CONFIG_MMIOTRACE")),
        false => Err(format!(
            "the kernel has it only for x86, and this machine is {architecture}"
        )),
    };
    let rwmmio = match kernel.exists(&format!("{tracing}/events/rwmmio")) {
        true => Ok("every register access by the kernel's accessors; not stores to framebuffers".to_owned()),
        false => Err(format!(
            "the kernel {release} was built without CONFIG_TRACE_MMIO_ACCESS"
        )),
    };
    let known = probes::find_known_accessors(driver);
    let functions = |all: &[Accessor]| all.iter().map(|a| a.function.as_str()).collect::<Vec<_>>().join(", ");
    let kprobes = if !kernel.exists(&format!("{tracing}/kprobe_events")) {
        Err(format!("the kernel {release} was built without CONFIG_KPROBE_EVENTS"))
    } else if probes::argument_registers(&architecture).is_none() {
        Err(format!(
            "this program does not know how {architecture} passes arguments"
        ))
    } else if !sought.functions.is_empty() && accessors.is_empty() {
        check_inlined_accesses(
            kernel,
            &architecture,
            &format!("functions named {}", sought.functions.join(", ")),
        )
    } else if !accessors.is_empty() {
        Ok(format!("calls of {}", functions(accessors)))
    } else if !known.is_empty() {
        Ok(format!(
            "calls of {}, the known accessors of {driver}; not other accesses",
            functions(&known)
        ))
    } else if let (Some(module), "aarch64") = (sought.module, architecture.as_str()) {
        check_inlined_accesses(kernel, &architecture, &format!("the module {module}"))
    } else {
        let mut why = format!("no accessors of {driver} are known; name some with --accessor FUNCTION:OFFSET[:VALUE]");
        if architecture == "aarch64" {
            why += "; the driver is built into this kernel, so name its functions with --functions PATTERN, for \
                    example --functions 'pl031_*'";
        }
        Err(why)
    };
    let results = [mmiotrace, rwmmio, kprobes];
    Method::ALL
        .into_iter()
        .zip(results)
        .map(|(method, result)| Ability {
            method,
            availability: result,
        })
        .collect()
}

/// Checks whether loads and stores in the code of `whose` can be probed.
fn check_inlined_accesses(kernel: &dyn Kernel, architecture: &str, whose: &str) -> Result<String, String> {
    if architecture != "aarch64" {
        return Err(format!(
            "loads and stores in a driver's own code are found only on arm64, and this machine is {architecture}"
        ));
    }
    if !kernel.exists(kernel_code::CORE) {
        return Err("the kernel does not show its code (/proc/kcore: CONFIG_PROC_KCORE)".into());
    }
    Ok(format!(
        "loads and stores next to the barriers of readl and writel in {whose}; not those of their _relaxed forms"
    ))
}

/// Chooses the method: the requested one, probes if accessors were named, or else the most complete one.
///
/// # Errors
/// Returns why there is none, in a sentence.
pub(crate) fn choose(abilities: &[Ability], asked: Option<Method>, accessors: bool) -> Result<Method, String> {
    let asked = asked.or(accessors.then_some(Method::Kprobes));
    let why = |a: &Ability| match &a.availability {
        Ok(_) => format!("{} is available (--with {})", a.method, a.method),
        Err(why) => format!("{}: {why}", a.method),
    };
    match asked {
        Some(method) => match abilities.iter().find(|a| a.method == method) {
            Some(Ability {
                availability: Ok(_), ..
            }) => Ok(method),
            _ => {
                let mut all: Vec<&Ability> = abilities.iter().collect();
                all.sort_by_key(|a| a.method != method);
                let all: Vec<String> = all.into_iter().map(why).collect();
                Err(format!("this machine cannot record by {method}. {}", all.join("; ")))
            }
        },
        None => abilities
            .iter()
            .find(|a| a.availability.is_ok())
            .map(|a| a.method)
            .ok_or_else(|| {
                let all: Vec<String> = abilities.iter().map(why).collect();
                format!(
                    "no method on this machine records the driver's accesses. {}",
                    all.join("; ")
                )
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    #[test]
    fn most_complete_capture_method_is_chosen_with_reasons() {
        let pc = FakeKernel::pc();
        fn query<'a>(driver: &'a str, accessors: &'a [Accessor]) -> MethodQuery<'a> {
            MethodQuery {
                driver,
                module: None,
                accessors,
                functions: &[],
            }
        }
        let all = list_abilities(&pc, find_tracing_folder(&pc).unwrap(), &query("radeonfb", &[]));
        assert_eq!(choose(&all, None, false), Ok(Method::Mmiotrace));
        let error = choose(&all, Some(Method::Rwmmio), false).unwrap_err();
        assert!(
            error.starts_with(
                "this machine cannot record by rwmmio. rwmmio: the kernel 6.1.0-56-amd64 was built without"
            ),
            "{error}"
        );
        assert!(error.contains("mmiotrace is available (--with mmiotrace)"), "{error}");
        let error = choose(&all, Some(Method::Kprobes), false).unwrap_err();
        assert!(error.contains("--accessor FUNCTION:OFFSET[:VALUE]"), "{error}");
        let all = list_abilities(
            &pc,
            find_tracing_folder(&pc).unwrap(),
            &query("x", &["x_rd32:2".parse().unwrap()]),
        );
        assert_eq!(choose(&all, None, true), Ok(Method::Kprobes));
        let board = FakeKernel::board();
        let all = list_abilities(&board, find_tracing_folder(&board).unwrap(), &query("rtc-pl031", &[]));
        let error = choose(&all, None, false).unwrap_err();
        assert!(error.contains("only for x86, and this machine is aarch64"), "{error}");
        assert!(error.contains("--functions 'pl031_*'"), "{error}");
        let all = list_abilities(&board, find_tracing_folder(&board).unwrap(), &query("igb", &[]));
        assert_eq!(choose(&all, None, false), Ok(Method::Kprobes));
        assert_eq!(find_tracing_folder(&FakeKernel::default()), None);
    }
}
