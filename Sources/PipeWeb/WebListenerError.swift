import Glibc
import PipeSupport
import PipeSystem

/// Why a web server cannot listen.
package enum WebListenerError: Error, Hashable {
  /// The text is no address.
  case noAddress(String)
  /// Somebody else listens there; who, where that can be known.
  case inUse(address: String, port: UInt16, by: ListeningProcess?)
  /// The address is none of this machine's.
  case elsewhere(String)
  /// A port below 1024, and no right to it.
  case notAllowed(port: UInt16)
  /// The path is longer than the system takes. Unit: bytes.
  case pathTooLong(String, limit: Int)
  /// Somebody listens at the path.
  case pathInUse(String)
  /// Something else is there than a socket.
  case noSocket(String)
  case noFolder(String)
  /// A group, or everybody, may remove what is in the folder of the path.
  case folderOfMany(String)
  /// The folder of the path is another user's, who may remove what is in it.
  case folderOfOther(String, owner: uid_t)
  /// Nothing may be made in the folder of the path.
  case folderNotAllowed(String)
  case failed(SystemError)

  static func of(_ code: Int32, _ call: String, _ address: String, _ port: UInt16) -> Self {
    switch code {
    case EADDRINUSE: .inUse(address: address, port: port, by: ListeningProcess(port: port))
    case EADDRNOTAVAIL: .elsewhere(address)
    case EACCES: .notAllowed(port: port)
    default: .failed(SystemError(call, on: "\(address):\(port)", code: code))
    }
  }
}

extension WebListenerError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noAddress(let text):
      "'\(text)' is no address: write it in numbers, as in 127.0.0.1 or ::1"
    case .inUse(let address, let port, let process):
      "port \(port) of \(address) is in use"
        + (process.map {
          " by process \($0.pid), '\($0.name)': choose another one with --port, or end it"
        }
          ?? ": choose another one with --port, or end what listens there, which 'ss -ltnp' shows root")
    case .elsewhere(let address): "\(address) is no address of this machine: 'ip addr' shows those"
    case .notAllowed(let port):
      "port \(port) is for root alone: choose one from 1024 on with --port"
    case .pathTooLong(let path, let limit):
      "'\(path)' has \(path.utf8.count) bytes, and the path of a socket at most \(limit): choose a shorter "
        + "one, as in /tmp/page.socket, or a relative one"
    case .pathInUse(let path):
      "somebody listens at '\(path)': choose another path, or end that process, which 'ss -lxp' shows"
    case .noSocket(let path):
      "'\(path)' is there and no socket: it is not replaced; choose another path, or remove it"
    case .noFolder(let folder):
      "there is no folder '\(folder)' for the socket: 'mkdir -p' makes it"
    case .folderOfMany(let folder):
      "others may replace what is in '\(folder)': 'chmod go-w' keeps them from it where it is yours; else choose "
        + "a folder of your own, as 'mkdir -m 700' makes it"
    case .folderOfOther(let folder, let owner):
      "'\(folder)' belongs to user \(owner), who may replace what is in it, and this is user \(geteuid()): choose "
        + "a folder of your own, as 'mkdir -m 700' makes it"
    case .folderNotAllowed(let folder):
      "no socket may be made in '\(folder)': choose a folder of your own"
    case .failed(let error): "cannot listen: \(error)"
    }
  }
}
