#if PIPERUNTIME_TSAN
  import PipeSupport

  /// Replaces `Synchronization.Mutex`, which Thread Sanitizer does not support.
  typealias Mutex<Value: ~Copyable> = Locked<Value>
#endif
