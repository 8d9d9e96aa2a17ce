//! The processor on which the threads of a cluster run: they wake each other some hundred times in a virtual second, which
//! takes several times as long between two processors.

/// A processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor(#[cfg(target_os = "linux")] usize);

#[cfg(target_os = "linux")]
impl Processor {
    /// The one on which this thread runs now.
    pub(crate) fn current() -> Self {
        Self(rustix::thread::sched_getcpu())
    }

    /// Keeps this thread on it. A thread that may not choose runs on any.
    pub(crate) fn keep_thread(self) {
        let mut only = rustix::thread::CpuSet::new();
        only.set(self.0);
        let _ = rustix::thread::sched_setaffinity(None, &only);
    }
}

#[cfg(not(target_os = "linux"))]
impl Processor {
    pub(crate) const fn current() -> Self {
        Self()
    }

    pub(crate) const fn keep_thread(self) {}
}
