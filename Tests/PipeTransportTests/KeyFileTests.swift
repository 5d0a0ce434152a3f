import Glibc
import PipeSystem
import PipeTransport
import TestSupport
import Testing

@Suite("Key files")
struct KeyFileTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/door.key" }

  init() throws { directory = try TemporaryDirectory() }

  private func write(_ text: String, mode: mode_t = 0o600) throws {
    unlink(path)
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
    defer { close(descriptor) }
    try FileSystem.write(Array(text.utf8), to: descriptor, path: path)
    try #require(fchmod(descriptor, mode) == 0)
  }

  private func mode() -> mode_t {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
  }

  @Test(
    "A written key pair is read unchanged, and its file is private even if a public file existed")
  func roundTrip() throws {
    let pair = try CurveKeyPair.make()
    #expect(try CurveKeyPair.make().publicKey != pair.publicKey)
    // Leftover files that all users can read.
    try write("old", mode: 0o666)
    close(open(path + ".new", O_WRONLY | O_CREAT, 0o666))
    chmod(path + ".new", 0o666)
    let former = umask(0)
    defer { umask(former) }
    try KeyFile.write(pair, to: path)
    #expect(mode() == 0o600)
    #expect(!FileSystem.exists(path + ".new"))
    #expect(try KeyFile.read(path).publicKey == pair.publicKey)
  }

  @Test(
    "A key file that other users can read is refused",
    arguments: [0o640, 0o604, 0o620, 0o602, 0o610, 0o777])
  func readable(mode: Int) throws {
    try KeyFile.write(try CurveKeyPair.make(), to: path)
    chmod(path, mode_t(mode))
    let error = try #require(throws: KeyFileError.self) { try KeyFile.read(path) }
    #expect(error == .readableByOthers(path, mode: UInt32(mode)))
    #expect("\(error)".contains("'\(path)' has mode \(String(mode, radix: 8))"))
  }

  @Test("A key file without a matching pair is refused")
  func malformed() throws {
    let (pair, other) = (try CurveKeyPair.make(), try CurveKeyPair.make())
    try KeyFile.write(pair, to: path)
    let text = try #require(FileSystem.text(of: path))
    let mixed = text.replacing(pair.publicKey.text, with: other.publicKey.text)
    for text in ["", "{}", String(text.prefix(60)), mixed, "{\"public\":\"x\",\"secret\":\"y\"}"] {
      try write(text)
      #expect(throws: KeyFileError.malformed(path), "\(text)") { try KeyFile.read(path) }
    }
  }

  @Test("A key file that is not a regular file is refused without blocking")
  func noFile() throws {
    #expect(throws: KeyFileError.system(SystemError("open", on: path, code: ENOENT))) {
      try KeyFile.read(path)
    }
    #expect(throws: KeyFileError.notARegularFile(directory.path)) {
      try KeyFile.read(directory.path)
    }
    try #require(mkfifo(path, 0o600) == 0)
    #expect(throws: KeyFileError.notARegularFile(path)) { try KeyFile.read(path) }
    #expect(throws: KeyFileError.self) {
      try KeyFile.write(try CurveKeyPair.make(), to: directory.path + "/nowhere/door.key")
    }
  }

  @Test("A client's key file contains its topology's address, and additional keys are ignored")
  func control() throws {
    let (pair, server) = (try CurveKeyPair.make(), try CurveKeyPair.make().publicKey)
    let address = ControlAddress(
      topology: "ward", endpoint: "tcp://10.0.0.7:4000", key: server.text)
    try KeyFile.write(pair, for: address, to: path)
    #expect(mode() == 0o600)
    #expect(try KeyFile.readWithControl(path).control == address)
    #expect(try KeyFile.readWithControl(path).pair.publicKey == pair.publicKey)
    #expect(try KeyFile.read(path).publicKey == pair.publicKey)
    let text = try #require(FileSystem.text(of: path))
    try write(text.replacing("{\"public\"", with: "{\"note\":{\"by\":\"me\"},\"public\""))
    #expect(try KeyFile.readWithControl(path).control == address)
    try write(text.replacing(server.text, with: "no key"))
    #expect(throws: KeyFileError.missingControlAddress(path)) { try KeyFile.readWithControl(path) }
    try KeyFile.write(pair, to: path)
    #expect(throws: KeyFileError.missingControlAddress(path)) { try KeyFile.readWithControl(path) }
  }

  @Test(
    "An endpoint to connect to has a host and a port",
    arguments: [
      ("tcp://10.0.0.7:4000", true), ("tcp://node-7.example:1", true), ("tcp://a:65535", true),
      ("tcp://a:0", false), ("tcp://a:65536", false), ("tcp://:4000", false), ("tcp://a", false),
      ("tcp://*:4000", false), ("a:4000", false), ("ipc:///a:4000", false), ("tcp://a;b:1", false),
      ("tcp://a/b:1", false), ("", false),
    ])
  func endpoints(text: String, isOne: Bool) {
    #expect((NetworkAddress(text) != nil) == isOne)
  }

  @Test("No description of a key pair contains the secret key")
  func secret() throws {
    let pair = try CurveKeyPair.make()
    try KeyFile.write(pair, to: path)
    let text = try #require(FileSystem.text(of: path))
    let secret = try #require(
      text.split(separator: "\"").map(String.init).last { $0.utf8.count == 40 })
    #expect(secret != pair.publicKey.text)
    for text in ["\(pair)", String(reflecting: pair), "\([pair])", "\(Optional(pair) as Any)"] {
      #expect(!text.contains(secret))
    }
  }

  @Test("A public key is 40 characters of Z85 or 32 bytes")
  func publicKeys() throws {
    let key = try CurveKeyPair.make().publicKey
    #expect(PublicKey(key.text) == key)
    #expect(PublicKey(String(key.text.dropLast())) == nil)
    #expect(PublicKey(key.text + "a") == nil)
    #expect(PublicKey(String(repeating: "~", count: 40)) == nil)
    #expect(PublicKey(String(repeating: "é", count: 20)) == nil)
    #expect(PublicKey(bytes: [UInt8](repeating: 0, count: 31)) == nil)
    #expect(
      PublicKey(bytes: [UInt8](repeating: 0, count: 32))?.text == String(repeating: "0", count: 40))
  }
}
