#if PIPERUNTIME_TSAN
  import PipeRuntime

  /// A replacement for `Synchronization.Mutex`, which Thread Sanitizer does not support.
  typealias Mutex<Value: ~Copyable> = Locked<Value>
#endif
