import Glibc
import PipeSupport
import PipeSystem

/// A process that listens at a port, as far as the system tells who that is: root is told of all processes,
/// others of their own.
package struct ListeningProcess: Hashable, Sendable {
  package let pid: Int
  package let name: String

  /// Looks for it; `nil` where it cannot be known.
  init?(port: UInt16) {
    let sockets = Self.sockets(at: port)
    guard !sockets.isEmpty else { return nil }
    for pid in FileSystem.entries(of: "/proc").compactMap(Int.init) {
      let folder = "/proc/\(pid)/fd"
      let holds = FileSystem.entries(of: folder).contains {
        Self.target(of: "\(folder)/\($0)").map(sockets.contains) ?? false
      }
      guard holds else { continue }
      self.pid = pid
      let text = FileSystem.text(of: "/proc/\(pid)/comm") ?? ""
      name = text.filter { !$0.isNewline }.printable
      return
    }
    return nil
  }

  /// What descriptors of listening sockets lead to: `socket:[4711]`.
  private static func sockets(at port: UInt16) -> Set<String> {
    var sockets: Set<String> = []
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
      for line in (FileSystem.text(of: table) ?? "").split(separator: "\n").dropFirst() {
        // Its own address, that of its peer, its state, six more, and the number of its file.
        let fields = line.split(separator: " ")
        guard fields.count > 9, fields[3] == "0A",
          let digits = fields[1].split(separator: ":").last, UInt16(digits, radix: 16) == port
        else { continue }
        sockets.insert("socket:[\(fields[9])]")
      }
    }
    return sockets
  }

  private static func target(of link: String) -> String? {
    withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { room in
      guard let start = room.baseAddress else { return nil }
      let count = readlink(link, start, room.count)
      return count > 0 ? String(decoding: room[..<count], as: UTF8.self) : nil
    }
  }
}
