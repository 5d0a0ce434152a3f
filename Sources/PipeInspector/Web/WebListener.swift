import Glibc
import PipeSupport
import PipeSystem

/// A listening socket of a web server.
package struct WebListener: ~Copyable {
  private let descriptor: Descriptor
  /// The address or path of the socket: `127.0.0.1:9464`, `[::1]:9464`, `/run/page.socket`.
  package let endpoint: String
  /// The port on which the socket listens; 0 for a socket in the file system.
  package let port: UInt16
  /// The socket's file, if the socket is in the file system.
  let file: SocketFile?

  /// Listens at an address of this host.
  /// - Parameters:
  ///   - address: A numeric IPv4 or IPv6 address.
  ///   - port: The port; 0 for any free port.
  package init(address: String, port: UInt16) throws(WebListenerError) {
    guard var found = SocketAddress(address, port) else { throw .invalidAddress(address) }
    let descriptor = try Descriptor(found.family, on: address)
    // With this option, a restarted server can bind its port while old connections are in
    // TIME_WAIT.
    var yes: Int32 = 1
    setsockopt(
      descriptor.number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    guard found.withPointer({ bind(descriptor.number, $0, $1) }) == 0 else {
      throw .of(errno, "bind", address, port)
    }
    guard listen(descriptor.number, Self.backlog) == 0 else {
      throw .of(errno, "listen", address, port)
    }
    found.readName(of: descriptor.number)
    self.port = found.port
    endpoint = found.host + ":\(found.port)"
    file = nil
    self.descriptor = descriptor
  }

  /// Listens at a socket in the file system. Only the owner can connect to this socket. Replaces
  /// the stale socket of a process that has ended.
  package init(socket path: String) throws(WebListenerError) {
    let descriptor = try Descriptor(AF_UNIX, on: path)
    file = try SocketFile(path, of: descriptor.number, backlog: Self.backlog)
    endpoint = FileSystem.absolutePath(path)
    port = 0
    self.descriptor = descriptor
  }

  /// The maximum number of connections that wait to be accepted.
  private static let backlog: Int32 = 16

  /// Moves the descriptor out of the listener. The caller must close the descriptor.
  consuming func take() -> Int32 { descriptor.take() }

  /// A descriptor that is closed at the end of its lifetime, unless ``take()`` has moved it out.
  private struct Descriptor: ~Copyable {
    let number: Int32

    init(_ family: Int32, on subject: String) throws(WebListenerError) {
      let newDescriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      guard newDescriptor >= 0 else {
        throw .failed(SystemError("socket", on: subject, code: errno))
      }
      number = newDescriptor
    }

    consuming func take() -> Int32 {
      let number = number
      discard self
      return number
    }

    deinit { close(number) }
  }
}

/// The reason why a web server cannot listen.
package enum WebListenerError: Error, Hashable {
  /// The text is not a numeric address.
  case invalidAddress(String)
  /// Another process listens at the address; `by` is that process, if it is known.
  case inUse(address: String, port: UInt16, by: ListeningProcess?)
  /// This host does not have the address.
  case addressNotLocal(String)
  /// The port is below 1024, and the process has no permission to use it.
  case notAllowed(port: UInt16)
  /// The path is longer than the system allows. `limit`: the maximum length in bytes.
  case pathTooLong(String, limit: Int)
  /// Another process listens at the path.
  case pathInUse(String)
  /// The existing file is not a socket.
  case notASocket(String)
  case noSuchDirectory(String)
  /// The folder's mode allows its group or all users to remove files in the folder.
  case directoryWritableByOthers(String)
  /// Another user owns the folder, and can therefore remove files in it.
  case directoryOwnedByOtherUser(String, owner: uid_t)
  /// The process has no permission to create files in the folder.
  case directoryNotWritable(String)
  case failed(SystemError)

  static func of(_ code: Int32, _ call: String, _ address: String, _ port: UInt16) -> Self {
    switch code {
    case EADDRINUSE: .inUse(address: address, port: port, by: ListeningProcess(port: port))
    case EADDRNOTAVAIL: .addressNotLocal(address)
    case EACCES: .notAllowed(port: port)
    default: .failed(SystemError(call, on: "\(address):\(port)", code: code))
    }
  }
}

extension WebListenerError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .invalidAddress(let text):
      "'\(text)' is not a numeric address such as 127.0.0.1 or ::1"
    case .inUse(let address, let port, let process):
      "port \(port) of \(address) is in use"
        + (process.map {
          " by process \($0.pid), '\($0.name)'; choose another port with --port, or end the "
            + "process"
        }
          ?? "; choose another port with --port, or end the process that listens there, which "
          + "'ss -ltnp' shows root")
    case .addressNotLocal(let address):
      "\(address) is not an address of this host; 'ip addr' shows the addresses"
    case .notAllowed(let port):
      "permission denied: only root can use port \(port); choose a port from 1024 on with --port"
    case .pathTooLong(let path, let limit):
      "path too long: '\(path)' has \(path.utf8.count) bytes, and the limit for a socket is "
        + "\(limit); choose a shorter path such as /tmp/page.socket, or a relative path"
    case .pathInUse(let path):
      "another process listens at '\(path)'; choose another path, or end the process, which "
        + "'ss -lxp' shows"
    case .notASocket(let path):
      "'\(path)' exists and is not a socket; choose another path, or remove the file"
    case .noSuchDirectory(let folder):
      "no such directory '\(folder)' for the socket; create the directory with 'mkdir -p'"
    case .directoryWritableByOthers(let folder):
      "other users may replace files in '\(folder)'; run 'chmod go-w' if the directory is "
        + "yours, or create a private directory with 'mkdir -m 700'"
    case .directoryOwnedByOtherUser(let folder, let owner):
      "'\(folder)' belongs to user \(owner), who may replace files in it, and this process "
        + "runs as user \(geteuid()); create a private directory with 'mkdir -m 700'"
    case .directoryNotWritable(let folder):
      "permission denied: cannot create a socket in '\(folder)'; choose a directory of your own"
    case .failed(let error): "cannot listen: \(error)"
    }
  }
}

/// The process that listens at a port. Only root can find processes of other users.
package struct ListeningProcess: Hashable, Sendable {
  package let pid: Int
  package let name: String

  /// Finds the process that listens at a port; `nil` if it cannot be found.
  init?(port: UInt16) {
    let sockets = Self.sockets(at: port)
    guard !sockets.isEmpty else { return nil }
    for pid in FileSystem.entryNames(of: "/proc").compactMap(Int.init) {
      let folder = "/proc/\(pid)/fd"
      let ownsSocket = FileSystem.entryNames(of: folder).contains {
        Self.target(of: "\(folder)/\($0)").map(sockets.contains) ?? false
      }
      guard ownsSocket else { continue }
      self.pid = pid
      let text = FileSystem.text(of: "/proc/\(pid)/comm") ?? ""
      name = text.filter { !$0.isNewline }.printable
      return
    }
    return nil
  }

  /// Returns the link targets by which `/proc` shows the sockets that listen at this port, such as
  /// `socket:[4711]`.
  private static func sockets(at port: UInt16) -> Set<String> {
    var sockets: Set<String> = []
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
      for line in (FileSystem.text(of: table) ?? "").split(separator: "\n").dropFirst() {
        // Fields 1 to 3 are the local address, the remote address and the state; field 9 is the
        // inode.
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
    withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { buffer in
      guard let start = buffer.baseAddress else { return nil }
      let count = readlink(link, start, buffer.count)
      return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
    }
  }
}
