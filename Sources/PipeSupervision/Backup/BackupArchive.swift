import CProcess
import Glibc
import PipeSystem

/// A hash of bytes that are added in blocks. The length of each block except the last must be a
/// multiple of eight bytes.
struct ContentHash {
  private var value: UInt64 = 0xCBF2_9CE4_8422_2325
  private(set) var byteCount: Int64 = 0

  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    value = pr_hash(value, bytes.baseAddress, bytes.count)
    byteCount += Int64(bytes.count)
  }

  /// The hash in hexadecimal.
  var text: String {
    let mixed = (value ^ UInt64(bitPattern: byteCount)) &* 0x9E37_79B9_7F4A_7C15
    return String(mixed ^ mixed >> 29, radix: 16)
  }
}

/// The header of a file in a tar archive, in the format ustar of POSIX.
struct ArchiveHeader: Hashable {
  static let byteCount = 512

  var path: String
  var fileByteCount: Int64

  /// The number of zero bytes after the contents, which fill the last block.
  var paddingByteCount: Int { Int(-fileByteCount & 511) }

  init(path: String, byteCount: Int64) {
    self.path = path
    fileByteCount = byteCount
  }

  // The offsets and sizes of the fields. Source: POSIX.1-2017, pax, "ustar Interchange Format".
  private static let name = 0..<100, mode = 100..<108, size = 124..<136, time = 136..<148
  private static let checksum = 148..<156, type = 156, magic = 257..<265

  /// Returns the bytes of the header.
  /// - Parameter time: The time of the file. Unit: seconds since 1970.
  func bytes(time: Int64) throws(SystemError) -> [UInt8] {
    let name = Array(path.utf8)
    guard name.count < Self.name.count else {
      throw SystemError("write", on: path, code: ENAMETOOLONG)
    }
    var bytes = [UInt8](repeating: 0, count: Self.byteCount)
    bytes.replaceSubrange(0..<name.count, with: name)
    Self.set(&bytes, Self.mode, to: 0o600)
    Self.set(&bytes, 108..<116, to: 0)
    Self.set(&bytes, 116..<124, to: 0)
    Self.set(&bytes, Self.size, to: UInt64(fileByteCount))
    Self.set(&bytes, Self.time, to: UInt64(time))
    bytes[Self.type] = UInt8(ascii: "0")
    bytes.replaceSubrange(Self.magic, with: Array("ustar\0".utf8) + Array("00".utf8))
    bytes.replaceSubrange(Self.checksum, with: Array(repeating: UInt8(ascii: " "), count: 8))
    let sum = bytes.reduce(UInt64(0)) { $0 + UInt64($1) }
    Self.set(&bytes, 148..<155, to: sum)
    return bytes
  }

  /// Reads a header; `nil` if the bytes are not the header of a regular file.
  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.byteCount,
      bytes[Self.magic.prefix(5)].elementsEqual("ustar".utf8),
      [UInt8(ascii: "0"), 0].contains(bytes[Self.type]),
      let recorded = Self.number(bytes[Self.checksum]), let size = Self.number(bytes[Self.size]),
      size <= UInt64(Int64.max) - 1024
    else { return nil }
    let sum = bytes.indices.reduce(UInt64(0)) {
      $0 + (Self.checksum.contains($1) ? 0x20 : UInt64(bytes[$1]))
    }
    guard sum == recorded else { return nil }
    path = String(decoding: bytes[Self.name].prefix { $0 != 0 }, as: UTF8.self)
    fileByteCount = Int64(size)
  }

  /// Writes a number in octal. Writes a number that is too large for the field in base 256, as GNU
  /// tar does.
  private static func set(_ bytes: inout [UInt8], _ field: Range<Int>, to value: UInt64) {
    let digits = Array(String(value, radix: 8).utf8)
    let width = field.count - 1
    if digits.count <= width {
      let zeros = [UInt8](repeating: UInt8(ascii: "0"), count: width - digits.count)
      bytes.replaceSubrange(field, with: zeros + digits + [0])
      return
    }
    for (offset, index) in field.reversed().enumerated() {
      bytes[index] = offset < 8 ? UInt8(truncatingIfNeeded: value >> (8 * UInt64(offset))) : 0
    }
    bytes[field.lowerBound] |= 0x80
  }

  private static func number(_ field: ArraySlice<UInt8>) -> UInt64? {
    if let first = field.first, first & 0x80 != 0 {
      return field.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }
    let digits = field.drop { $0 == 0x20 }.prefix { $0 != 0 && $0 != 0x20 }
    return UInt64(String(decoding: digits, as: UTF8.self), radix: 8)
  }
}

/// Writes a tar archive.
final class ArchiveWriter {
  let path: String
  private let descriptor: Int32
  private let time = Int64(Glibc.time(nil))
  private static let blockByteCount = 256 << 10

  /// Creates the file, or empties it.
  init(_ path: String) throws(SystemError) {
    self.path = path
    descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  /// Adds bytes as a file.
  func add(_ entry: String, _ bytes: [UInt8]) throws(SystemError) -> ContentHash {
    let header = ArchiveHeader(path: entry, byteCount: Int64(bytes.count))
    try write(try header.bytes(time: time))
    var hash = ContentHash()
    bytes.withUnsafeBytes { hash.add($0) }
    try write(bytes)
    try write([UInt8](repeating: 0, count: header.paddingByteCount))
    return hash
  }

  /// Adds the contents of a file.
  func add(_ entry: String, contentsOf source: String) throws -> ContentHash {
    let file = open(source, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw SystemError("open", on: source, code: errno) }
    defer { close(file) }
    let header = ArchiveHeader(path: entry, byteCount: FileSystem.byteCount(of: source))
    try write(try header.bytes(time: time))
    var hash = ContentHash()
    while hash.byteCount < header.fileByteCount {
      let rest = header.fileByteCount - hash.byteCount
      let block = try FileSystem.read(file, limit: Int(min(rest, Int64(Self.blockByteCount))))
      guard !block.isEmpty else { throw SystemError("read", on: source, code: EIO) }
      block.withUnsafeBytes { hash.add($0) }
      try write(block)
    }
    try write([UInt8](repeating: 0, count: header.paddingByteCount))
    return hash
  }

  /// Writes the end marker, and waits until the archive is on the disk.
  func finish() throws(SystemError) {
    try write([UInt8](repeating: 0, count: 2 * ArchiveHeader.byteCount))
    guard fsync(descriptor) == 0 else { throw SystemError("fsync", on: path, code: errno) }
  }

  private func write(_ bytes: [UInt8]) throws(SystemError) {
    try FileSystem.write(bytes, to: descriptor, path: path)
  }
}

/// Reads a tar archive of regular files.
final class ArchiveReader {
  /// A file of the archive, and the position of its contents.
  struct Entry {
    var header: ArchiveHeader
    var offset: Int64
  }

  let path: String
  private let descriptor: Int32
  private let byteCount: Int64
  private(set) var entries: [Entry] = []
  /// Whether the archive ends with its end marker, two blocks of zeros.
  private(set) var isComplete = false
  private static let blockByteCount = 256 << 10

  init(_ path: String) throws(SystemError) {
    self.path = path
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    byteCount = FileSystem.byteCount(of: path)
    var offset: Int64 = 0
    while offset + Int64(ArchiveHeader.byteCount) <= byteCount {
      let bytes = try read(at: offset, count: ArchiveHeader.byteCount)
      offset += Int64(ArchiveHeader.byteCount)
      guard let header = ArchiveHeader(bytes) else {
        isComplete =
          bytes.allSatisfy { $0 == 0 } && offset + Int64(ArchiveHeader.byteCount) <= byteCount
        return
      }
      entries.append(Entry(header: header, offset: offset))
      offset += header.fileByteCount + Int64(header.paddingByteCount)
    }
  }

  deinit { close(descriptor) }

  func entry(_ path: String) -> Entry? { entries.first { $0.header.path == path } }

  /// Returns the contents of an entry. Throws an error if they exceed `limit` bytes.
  func bytes(of entry: Entry, limit: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    try forEachBlock(of: entry) { block in
      guard bytes.count + block.count <= limit else {
        throw SystemError("read", on: entry.header.path, code: EFBIG)
      }
      bytes += block
    }
    return bytes
  }

  /// Returns the hash of the contents of an entry.
  func hash(of entry: Entry) throws -> ContentHash {
    var hash = ContentHash()
    try forEachBlock(of: entry) { block in block.withUnsafeBytes { hash.add($0) } }
    return hash
  }

  /// Writes the contents of an entry to a new file, and waits until the new file is on the disk.
  func extract(_ entry: Entry, to target: String) throws {
    let file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw SystemError("open", on: target, code: errno) }
    defer { close(file) }
    try forEachBlock(of: entry) { try FileSystem.write($0, to: file, path: target) }
    guard fsync(file) == 0 else { throw SystemError("fsync", on: target, code: errno) }
  }

  private func forEachBlock(of entry: Entry, _ body: ([UInt8]) throws -> Void) throws {
    var done: Int64 = 0
    while done < entry.header.fileByteCount {
      let count = min(entry.header.fileByteCount - done, Int64(Self.blockByteCount))
      try body(try read(at: entry.offset + done, count: Int(count)))
      done += count
    }
  }

  private func read(at offset: Int64, count: Int) throws(SystemError) -> [UInt8] {
    var code: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      while initialized < count {
        let read = pread(
          descriptor, buffer.baseAddress! + initialized, count - initialized,
          off_t(offset) + off_t(initialized))
        if read < 0, errno == EINTR { continue }
        guard read > 0 else {
          code = read < 0 ? errno : EIO
          return
        }
        initialized += read
      }
    }
    guard code == 0 else { throw SystemError("read", on: path, code: code) }
    return bytes
  }
}
