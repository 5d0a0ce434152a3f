import Glibc

/// A node's diagnostics: one line each on standard error, which the orchestrator keeps as its log.
final class NodeLog {
  private let node: String

  init(node: String) { self.node = node }

  func notice(_ text: String) { write("piperuntime: \(text)") }
  func warning(_ text: String) { write("piperuntime: warning: \(text)") }
  func failure(_ text: String) { write("piperuntime: error: \(text)") }

  /// Logs the first malformed frames and then ever fewer: their count is in the status.
  func garbage(_ error: any Error, from peer: String, count: UInt64) {
    guard count <= 3 || count.nonzeroBitCount == 1 else { return }
    warning("passed over \(error), from \(peer) (\(count) so far)")
  }

  private func write(_ line: String) {
    var text = line
    text.append("\n")
    text.withUTF8 { bytes in
      var rest = bytes[...]
      while !rest.isEmpty {
        let written = Glibc.write(STDERR_FILENO, rest.baseAddressForWriting, rest.count)
        guard written > 0 else { return }
        rest = rest.dropFirst(written)
      }
    }
  }
}

extension Slice<UnsafeBufferPointer<UInt8>> {
  fileprivate var baseAddressForWriting: UnsafePointer<UInt8>? {
    base.baseAddress.map { $0 + startIndex }
  }
}
