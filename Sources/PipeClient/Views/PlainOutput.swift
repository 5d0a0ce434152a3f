import Glibc
import PipeSystem

/// Standard output that is no terminal: each appearance is printed as lines of plain text.
package final class PlainOutput {
  enum Problem: Error { case readerGone, failed(SystemError) }

  /// What an appearance is made for.
  package static let size = TerminalSize(columns: 80, rows: 24)

  private let limit: Int
  private var count = 0

  /// - Parameter limit: The appearances after which it is enough.
  init(limit: Int?) { self.limit = limit ?? .max }

  var isDone: Bool { count >= limit }

  /// Whether somebody who reads it can go away before it is written to.
  var isPipe: Bool {
    var status = stat()
    return fstat(STDOUT_FILENO, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
  }

  /// Prints an appearance, with an empty line before all but the first.
  func print(_ lines: [StyledLine]) throws(Problem) {
    let text = lines.map { "\($0)\n" }.joined()
    var rest = Array(((count > 0 ? "\n" : "") + text).utf8)[...]
    count += 1
    while true {
      let (written, problem) = FileSystem.write(Array(rest), to: STDOUT_FILENO)
      rest = rest.dropFirst(written)
      switch problem {
      case nil: return
      case EAGAIN:
        var item = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
        poll(&item, 1, -1)
      case EPIPE: throw .readerGone
      case let problem?: throw .failed(SystemError("write", on: "stdout", code: problem))
      }
    }
  }
}
