import Glibc

/// Reads several non-blocking descriptors until a deadline.
package enum PipeReader {
  /// Waits for the first of them to be readable and reads what is there; one that has ended is
  /// taken out of the set. Nothing is read where the deadline came first.
  package static func read(
    _ open: inout Set<Int32>, until deadline: ContinuousClock.Instant
  ) -> [(descriptor: Int32, bytes: [UInt8])] {
    var items = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    let wait = max(.zero, deadline - .now)
    guard poll(&items, nfds_t(items.count), Int32(clamping: wait.wholeMilliseconds + 1)) > 0 else {
      return []
    }
    var result: [(Int32, [UInt8])] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    for item in items where item.revents != 0 {
      let count = Glibc.read(item.fd, &buffer, buffer.count)
      if count > 0 {
        result.append((item.fd, Array(buffer[..<count])))
      } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
        open.remove(item.fd)
      }
    }
    return result
  }
}
