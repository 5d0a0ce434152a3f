import Glibc
import PipeMachines
import PipeSystem

/// A file that contains a key pair: `{"public":KEY,"secret":KEY}`. Only the owner may read the
/// file.
///
/// The key file of a topology's clients also says which orchestrator the pair is for: see
/// ``ControlAddress``. Other members of the JSON object are ignored.
///
/// Key pairs are never passed in command lines or environment variables, which other users of the
/// host could read.
package enum KeyFile {
  private struct Contents: Codable {
    var `public`: String
    var secret: String
    var control: ControlAddress?
  }

  private static let fileMode: mode_t = 0o600
  private static let sizeLimit = 4096

  /// Writes a key pair and replaces an existing file atomically.
  /// - Parameter control: The address of the orchestrator, for a key file of clients.
  package static func write(
    _ pair: CurveKeyPair, for control: ControlAddress? = nil, to path: String
  ) throws(KeyFileError) {
    let new = path + ".new"
    do {
      let secret = pair.withSecret { String(decoding: $0, as: UTF8.self) }
      let text = try JSONRecord.encode(
        Contents(public: pair.publicKey.text, secret: secret, control: control))
      // Removes a file of an earlier writer, because other users may be able to read that file.
      guard unlink(new) == 0 || errno == ENOENT else {
        throw SystemError("unlink", on: new, code: errno)
      }
      let descriptor = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, fileMode)
      guard descriptor >= 0 else { throw SystemError("open", on: new, code: errno) }
      defer { close(descriptor) }
      try FileSystem.write(text + Array("\n".utf8), to: descriptor, path: new)
      guard rename(new, path) == 0 else { throw SystemError("rename", on: path, code: errno) }
    } catch let error as SystemError {
      throw .system(error)
    } catch {
      throw .malformed(path)
    }
  }

  /// Reads the key pair in a file.
  /// - Throws: ``KeyFileError``, also if other users can read the file, because the secret may have
  ///   leaked.
  package static func read(_ path: String) throws(KeyFileError) -> CurveKeyPair {
    try contents(of: path).pair
  }

  /// Reads the key pair in a file, and the address of the orchestrator that the pair is for.
  /// - Throws: ``KeyFileError``; `missingControlAddress` if the file has no such address.
  package static func readWithControl(
    _ path: String
  ) throws(KeyFileError) -> (pair: CurveKeyPair, control: ControlAddress) {
    let (pair, control) = try contents(of: path)
    guard let control, PublicKey(control.key) != nil else { throw .missingControlAddress(path) }
    return (pair, control)
  }

  private static func contents(
    of path: String
  ) throws(KeyFileError) -> (pair: CurveKeyPair, control: ControlAddress?) {
    // Without `O_NONBLOCK`, opening a FIFO would block.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw .system(SystemError("open", on: path, code: errno)) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw .system(SystemError("fstat", on: path, code: errno))
    }
    guard status.st_mode & S_IFMT == S_IFREG else { throw .notARegularFile(path) }
    guard status.st_uid == geteuid() || status.st_uid == 0 else {
      throw .foreignOwner(path, owner: status.st_uid)
    }
    // A file owned by root, such as a secret mounted in a pod, may be readable by its group.
    let forbiddenModeBits: mode_t = status.st_uid == geteuid() ? 0o077 : 0o037
    guard status.st_mode & forbiddenModeBits == 0 else {
      throw .readableByOthers(path, mode: UInt32(status.st_mode & 0o777))
    }
    guard let text = try? FileSystem.read(descriptor, limit: sizeLimit),
      let found = contents(in: text)
    else { throw .malformed(path) }
    return found
  }

  /// Reads the key pair in the contents of a key file.
  /// - Parameter text: The contents; `nil` reads the contents from standard input.
  package static func read(inline text: String?) throws(KeyFileError) -> CurveKeyPair {
    let bytes =
      text.map { Array($0.utf8) } ?? (try? FileSystem.read(STDIN_FILENO, limit: sizeLimit))
    guard let bytes, let found = contents(in: bytes) else { throw .malformed("-") }
    return found.pair
  }

  private static func contents(
    in text: [UInt8]
  ) -> (pair: CurveKeyPair, control: ControlAddress?)? {
    guard let contents = try? JSONRecord.decode(Contents.self, from: text),
      let pair = CurveKeyPair(secret: Array(contents.secret.utf8)),
      pair.publicKey.text == contents.public
    else { return nil }
    return (pair, contents.control)
  }
}

/// The address at which an orchestrator listens for clients on other hosts.
package struct ControlAddress: Codable, Hashable, Sendable {
  /// The name of the topology that the orchestrator runs.
  package var topology: String
  /// The bound endpoint: `tcp://ADDRESS:PORT`.
  package var endpoint: String
  /// The public key of the control socket.
  package var key: String

  package init(topology: String, endpoint: String, key: String) {
    self.topology = topology
    self.endpoint = endpoint
    self.key = key
  }
}

/// The reason why a key file cannot be written or read.
package enum KeyFileError: Error, Hashable, Sendable {
  case system(SystemError)
  case notARegularFile(String)
  /// The file belongs to another user, neither this process's user nor root.
  case foreignOwner(String, owner: UInt32)
  /// Users other than the owner may read or write the file.
  case readableByOthers(String, mode: UInt32)
  case malformed(String)
  /// The file does not say which orchestrator its pair is for.
  case missingControlAddress(String)
}

extension KeyFileError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .system(let error): "the key file cannot be used: \(error)"
    case .notARegularFile(let path):
      "the key file '\(path)' is not a regular file; name the file that contains the key pair"
    case .foreignOwner(let path, let owner):
      "the key file '\(path)' belongs to user \(owner); make your own copy with mode 600"
    case .readableByOthers(let path, let mode):
      "the key file '\(path)' has mode \(String(mode, radix: 8)), so other users can read it; run "
        + "'chmod 600 \(path)'; other users who have read the file can use the key until the "
        + "topology is started again"
    case .malformed("-"):
      "standard input does not contain a key pair, {\"public\":KEY,\"secret\":KEY} with 40 "
        + "characters each; '--key -' requires the content of a key file"
    case .malformed(let path):
      "the key file '\(path)' does not contain a key pair, {\"public\":KEY,\"secret\":KEY} with 40 "
        + "characters each: the file is truncated, or is not a key file"
    case .missingControlAddress(let path):
      "the key file '\(path)' does not name the orchestrator of its key pair; copy 'client.key' "
        + "from the runtime directory of the topology"
    }
  }
}
