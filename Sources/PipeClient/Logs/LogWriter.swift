import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Writes one node's log file, rotated by size. A full disk or any other error loses lines, which
/// are counted and reported, and has no other effect. When rotation drops the oldest file, the next
/// file begins with the dropped amount.
///
/// Another program may remove, move or truncate the file at any time. The next line detects that.
/// It begins a new file, or continues in the shorter one, with a note.
///
/// Not safe for concurrent use: one thread owns it.
package final class LogWriter {
  /// An event to report once, and not for every line.
  package enum Notice: Hashable, Sendable {
    case failing(SystemError)
    case recovered(lostLines: Int)
  }

  package let path: String
  /// The limits of the log; `nil` only adds lines, and leaves rotation to the log's main writer.
  package var retention: LogRetention? { didSet { mayExceedFileLimit = true } }
  /// The number of lines that could not be written since the last successful write.
  package private(set) var lostLines = 0
  /// Whether the last attempt failed.
  package private(set) var isFailing = false

  private var descriptor: Int32 = -1
  /// The identity of the open file.
  private var identity: FileIdentity?
  private var size = 0
  /// The interference of another program with the file, until the file has a note of it.
  private var interference: String?
  /// Whether there may be more files than the limit.
  private var mayExceedFileLimit = true
  /// The amount that rotation has dropped, until the file has a note of it. Unit: bytes.
  private var droppedBytes = 0
  /// The amount dropped before; `nil` until the files were searched for a note of it. Unit: bytes.
  private var formerlyDroppedBytes: Int?

  package init(path: String, keeping retention: LogRetention? = LogRetention()) {
    self.path = path
    self.retention = retention
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Appends lines, with one write for each file that they fill.
  /// - Returns: The start or the end of errors, to be reported.
  package func write(
    _ lines: [String], from stream: LogStream, at time: Timestamp = .now
  ) -> Notice? {
    var notice: Notice?
    var rest = lines[...]
    let prefix = "\(time) "
    while !rest.isEmpty {
      findInterference()
      let count = rotateIfNeeded(for: rest.lazy.map { prefix.utf8.count + $0.utf8.count + 5 })
      notice = append(rest.prefix(count), from: stream, prefix) ?? notice
      rest = rest.dropFirst(count)
    }
    return notice
  }

  private func append(
    _ lines: ArraySlice<String>, from stream: LogStream, _ prefix: String
  ) -> Notice? {
    var bytes: [UInt8] = []
    let notes = pendingNotes
    let ownLines = notes.count
    for note in notes { bytes.append(contentsOf: "\(prefix)note \(note)\n".utf8) }
    for line in lines {
      bytes.append(contentsOf: prefix.utf8)
      bytes.append(contentsOf: stream.rawValue.utf8)
      bytes.append(UInt8(ascii: " "))
      bytes.append(contentsOf: line.utf8)
      bytes.append(0x0A)
    }
    do throws(WriteError) {
      try append(bytes)
    } catch {
      let written = bytes[..<error.written].count { $0 == 0x0A }
      if written >= ownLines, ownLines > 0 { clearPendingNotes() }
      lostLines += lines.count - max(written - ownLines, 0)
      defer { isFailing = true }
      return isFailing ? nil : .failing(error.cause)
    }
    let lost = lostLines
    clearPendingNotes()
    guard isFailing else { return nil }
    isFailing = false
    return .recovered(lostLines: lost)
  }

  /// The notes that must precede the next line in the file.
  private var pendingNotes: [String] {
    var notes: [String] = []
    if droppedBytes > 0, let retention {
      let total = (formerlyDroppedBytes ?? 0) + droppedBytes
      notes.append(LogDropNote(bytes: droppedBytes, total: total, retention).description)
    }
    if let interference { notes.append(interference) }
    if lostLines > 0 { notes.append("\(lostLines) log lines lost here") }
    return notes
  }

  private func clearPendingNotes() {
    formerlyDroppedBytes = formerlyDroppedBytes.map { $0 + droppedBytes }
    (droppedBytes, interference, lostLines) = (0, nil, 0)
  }

  private struct WriteError: Error {
    var cause: SystemError
    /// The complete lines that reached the file. Unit: bytes.
    var written = 0
  }

  private func append(_ bytes: [UInt8]) throws(WriteError) {
    try openIfClosed()
    let (count, problem) = FileSystem.write(bytes, to: descriptor)
    guard let problem else {
      size += count
      return
    }
    // The next line would continue a partial line.
    let whole = (bytes[..<count].lastIndex(of: 0x0A) ?? -1) + 1
    ftruncate(descriptor, off_t(size + whole))
    // The next attempt opens the file again: it may have been removed, or the disk replaced.
    close(descriptor)
    (descriptor, identity) = (-1, nil)
    throw WriteError(cause: SystemError("write", on: path, code: problem), written: whole)
  }

  private func openIfClosed() throws(WriteError) {
    guard descriptor < 0 else { return }
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else {
      throw WriteError(cause: SystemError("open", on: path, code: errno))
    }
    identity = FileIdentity(descriptor: descriptor)
    size = Self.size(of: descriptor) ?? 0
  }

  private static func size(of descriptor: Int32) -> Int? {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : nil
  }

  /// Detects what another program has done to the file since the last line.
  private func findInterference() {
    guard descriptor >= 0 else { return }
    if FileIdentity(path) != identity {
      interference =
        "the log file was removed or moved by another program; a new log file begins "
        + "here"
      close(descriptor)
      (descriptor, identity) = (-1, nil)
      // The whole directory may have been removed.
      try? FileSystem.makeDirectories(FileSystem.directory(of: path), mode: 0o700)
    } else if let size = Self.size(of: descriptor), size != self.size {
      if size < self.size {
        interference = "the log file was truncated by another program; the log continues here"
      }
      self.size = size
      // Begins a new file, so that no reader takes a position in the old text for one in the new text.
      guard size == 0 else { return }
      unlink(path)
      close(descriptor)
      (descriptor, identity) = (-1, nil)
    }
  }

  // MARK: Rotation

  /// Rotates the file if it would become too large, and drops files beyond the limit.
  /// - Parameter lengths: The lengths of the lines. Unit: bytes.
  /// - Returns: The number of lines that go into the file: at least one.
  private func rotateIfNeeded(for lengths: some Collection<Int>) -> Int {
    guard let retention else { return lengths.count }
    if formerlyDroppedBytes == nil { formerlyDroppedBytes = readFormerlyDroppedBytes() }
    var size = descriptor >= 0 ? size : Self.size(of: path) ?? 0
    if size > 0, size + (lengths.first ?? 0) > retention.maxSize {
      rotate(retention)
      size = 0
    }
    if mayExceedFileLimit { dropFiles(from: retention.maxFiles) }
    mayExceedFileLimit = false
    var count = 0
    for length in lengths {
      size += length
      if count > 0, size > retention.maxSize { break }
      count += 1
    }
    return count
  }

  private func rotate(_ retention: LogRetention) {
    if descriptor >= 0 { close(descriptor) }
    (descriptor, identity) = (-1, nil)
    dropFiles(from: retention.maxFiles - 1)
    for index in stride(from: retention.maxFiles - 2, through: 0, by: -1) {
      rename(name(of: index), name(of: index + 1))
    }
  }

  /// Removes the files from this index on. The current file has the index 0.
  private func dropFiles(from first: Int) {
    var index = first
    while let size = Self.size(of: name(of: index)), unlink(name(of: index)) == 0 {
      droppedBytes += size
      index += 1
    }
  }

  private func name(of index: Int) -> String { index == 0 ? path : "\(path).\(index)" }

  private static func size(of path: String) -> Int? {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : nil
  }

  /// Returns the amount that was dropped before, by the newest file with a note of it. Unit: bytes.
  private func readFormerlyDroppedBytes() -> Int {
    for file in LogFile.all(path).reversed() {
      if let total = LogDropNote.lastTotal(in: file.read(at: 0)) { return total }
    }
    return 0
  }
}

/// The log line that says how much of the log was dropped.
private struct LogDropNote: CustomStringConvertible {
  /// The amount since the last such line. Unit: bytes.
  let bytes: Int
  /// The amount since the log began. Unit: bytes.
  let total: Int
  let retention: LogRetention

  private static let beginning = "older lines were dropped: "

  init(bytes: Int, total: Int, _ retention: LogRetention) {
    self.bytes = bytes
    self.total = total
    self.retention = retention
  }

  var description: String {
    "\(Self.beginning)\(bytes) bytes here, \(total) in all; the log keeps \(retention.maxFiles) "
      + "\(retention.maxFiles == 1 ? "file" : "files") of \(ByteSizeText.write(retention.maxSize))"
  }

  /// Returns the total in the last such line of a file; `nil` if there is none.
  static func lastTotal(in file: [UInt8]) -> Int? {
    var rest = file[...]
    while let end = rest.lastIndex(of: 0x0A) {
      let start = rest[..<end].lastIndex(of: 0x0A).map { $0 + 1 } ?? rest.startIndex
      if let total = total(in: rest[start..<end]) { return total }
      rest = rest[..<start]
    }
    return nil
  }

  /// Parses `TIME note older lines were dropped: N bytes here, TOTAL in all; …`.
  private static func total(in line: ArraySlice<UInt8>) -> Int? {
    let note = " note \(beginning)".utf8
    guard let blank = line.firstIndex(of: UInt8(ascii: " ")), line[blank...].starts(with: note)
    else { return nil }
    let words = line[(blank + note.count)...].split(separator: UInt8(ascii: " "))
    return words.count > 3 ? Int(String(decoding: words[3], as: UTF8.self)) : nil
  }
}
