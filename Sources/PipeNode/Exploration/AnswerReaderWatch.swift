import Glibc

/// Ends this process when nobody can read its answers any more, also while a step goes on that never returns:
/// who asks may be killed, and a program that hangs does not see its input end.
enum AnswerReaderWatch {
  /// - Parameter answers: A descriptor that stays open as long as the process. Of a file nothing is told.
  static func start(for answers: Int32) {
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { argument in
        // Nothing is asked for: an error and a hang-up are told in any case.
        var watched = pollfd(fd: Int32(Int(bitPattern: argument)), events: 0, revents: 0)
        while poll(&watched, 1, -1) < 0, errno == EINTR {}
        if watched.revents & Int16(POLLERR | POLLHUP) != 0 { _exit(EXIT_FAILURE) }
        return nil
      }, UnsafeMutableRawPointer(bitPattern: Int(answers)))
    // Without a thread it ends with its next answer.
    if code == 0 { pthread_detach(thread) }
  }
}
