#if PIPERUNTIME_TSAN
  import PipeSupport

  /// Stands in for `Synchronization.Mutex`, which Thread Sanitizer does not know.
  typealias Mutex<Value: ~Copyable> = Locked<Value>
#endif
