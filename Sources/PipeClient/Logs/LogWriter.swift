import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Writes the log file of one node, and rotates the file when it reaches its maximum size. If a
/// write fails, for example because the disk is full, the lines are lost. The writer counts and
/// reports lost lines, and the node continues. If rotation removes the oldest file, the new file
/// begins with a note that contains the number of removed bytes.
///
/// Another program may remove, move or truncate the file at any time. The writer notices the change
/// when it writes the next line. Then the writer begins a new file, or continues in a file that was
/// truncated to zero bytes, and adds a note.
///
/// Not safe for concurrent use: one thread owns the writer.
package final class LogWriter {
  /// The start or the end of a series of failed writes. The lines within the series cause no
  /// notice.
  package enum Notice: Hashable, Sendable {
    case failing(SystemError)
    case recovered(lostLines: Int)
  }

  /// The first words of the note about the lines that rotation has removed from the log.
  package static let dropNote = "older lines were dropped: "

  package let path: String
  /// The limits of the log. If `nil`, this writer only appends lines; another writer of the same
  /// log rotates the file.
  package var retention: LogRetention? { didSet { mayExceedFileLimit = true } }
  /// The number of lines that could not be written since the last successful write.
  package private(set) var lostLines = 0
  /// Whether the last write failed.
  package private(set) var isFailing = false

  private var descriptor: Int32 = -1
  /// The identity of the open file.
  private var identity: FileIdentity?
  private var fileSize = 0
  /// A note that another program has changed the file; `nil` once the note is in the file.
  private var interference: String?
  /// Whether there may be more files than the limit.
  private var mayExceedFileLimit = true
  /// The size of the lines that rotation has removed and that no note in the file mentions yet.
  /// Unit: bytes.
  private var droppedByteCount = 0
  /// The size of the lines that rotation has removed and that a note in the files already mentions;
  /// `nil` until the notes were read. Unit: bytes.
  private var formerlyDroppedByteCount: Int?

  package init(path: String, keeping retention: LogRetention? = LogRetention()) {
    self.path = path
    self.retention = retention
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Appends lines, with one write for each file.
  /// - Returns: A notice if errors have started or ended.
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

  /// The notes that are written before the next line.
  private var pendingNotes: [String] {
    var notes: [String] = []
    if droppedByteCount > 0, let retention {
      let total = (formerlyDroppedByteCount ?? 0) + droppedByteCount
      notes.append(LogDropNote(bytes: droppedByteCount, total: total, retention).description)
    }
    if let interference { notes.append(interference) }
    if lostLines > 0 { notes.append("\(lostLines) log lines lost here") }
    return notes
  }

  private func clearPendingNotes() {
    formerlyDroppedByteCount = formerlyDroppedByteCount.map { $0 + droppedByteCount }
    (droppedByteCount, interference, lostLines) = (0, nil, 0)
  }

  private struct WriteError: Error {
    var cause: SystemError
    /// The length of the complete lines that were written. Unit: bytes.
    var written = 0
  }

  private func append(_ bytes: [UInt8]) throws(WriteError) {
    try openIfClosed()
    let (count, problem) = FileSystem.write(bytes, to: descriptor)
    guard let problem else {
      fileSize += count
      return
    }
    // A partial line is removed, since the next line would continue it.
    let whole = (bytes[..<count].lastIndex(of: 0x0A) ?? -1) + 1
    ftruncate(descriptor, off_t(fileSize + whole))
    // The next write opens the file again: the file may have been removed, or the disk may have
    // been replaced.
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
    fileSize = Self.size(of: descriptor) ?? 0
  }

  private static func size(of descriptor: Int32) -> Int? {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : nil
  }

  /// Checks whether another program has changed the file since the last write, and adapts to the
  /// change.
  private func findInterference() {
    guard descriptor >= 0 else { return }
    if FileIdentity(path) != identity {
      interference =
        "the log file was removed or moved by another program; a new log file begins "
        + "here"
      close(descriptor)
      (descriptor, identity) = (-1, nil)
      // The whole directory may have been removed.
      try? FileSystem.makeDirectories(FileSystem.parentDirectory(of: path), mode: 0o700)
    } else if let size = Self.size(of: descriptor), size != self.fileSize {
      if size < self.fileSize {
        interference = "the log file was truncated by another program; the log continues here"
      }
      self.fileSize = size
      // If the truncated file still has text, the writer begins a new file. In the truncated file,
      // a reader would apply its position in the old text to the new text.
      guard size == 0 else { return }
      unlink(path)
      close(descriptor)
      (descriptor, identity) = (-1, nil)
    }
  }

  // MARK: Rotation

  /// Rotates the file if the first line would make it too large, and removes the oldest files if
  /// there are too many.
  /// - Parameter lengths: The lengths of the lines. Unit: bytes.
  /// - Returns: The number of lines that fit into the file; at least one.
  private func rotateIfNeeded(for lengths: some Collection<Int>) -> Int {
    guard let retention else { return lengths.count }
    if formerlyDroppedByteCount == nil { formerlyDroppedByteCount = readFormerlyDroppedBytes() }
    var size = descriptor >= 0 ? fileSize : Self.size(of: path) ?? 0
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
      rename(filePath(of: index), filePath(of: index + 1))
    }
  }

  /// Removes the files with the index `first` and all higher indices. The current file has the
  /// index 0.
  private func dropFiles(from first: Int) {
    var index = first
    while let size = Self.size(of: filePath(of: index)), unlink(filePath(of: index)) == 0 {
      droppedByteCount += size
      index += 1
    }
  }

  private func filePath(of index: Int) -> String { index == 0 ? path : "\(path).\(index)" }

  private static func size(of path: String) -> Int? {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : nil
  }

  /// Returns the total size of the removed lines according to the newest note in the files; 0 if
  /// there is no note. Unit: bytes.
  private func readFormerlyDroppedBytes() -> Int {
    for file in LogFile.all(path).reversed() {
      if let total = LogDropNote.lastTotalByteCount(in: file.read(at: 0)) { return total }
    }
    return 0
  }
}

/// A note that records in a log how many bytes rotation has removed from this log.
private struct LogDropNote: CustomStringConvertible {
  /// The size of the lines that were removed since the last note of this kind. Unit: bytes.
  let byteCount: Int
  /// The size of the lines that were removed since the log was created. Unit: bytes.
  let totalByteCount: Int
  let retention: LogRetention

  init(bytes: Int, total: Int, _ retention: LogRetention) {
    self.byteCount = bytes
    self.totalByteCount = total
    self.retention = retention
  }

  var description: String {
    "\(LogWriter.dropNote)\(byteCount) bytes here, \(totalByteCount) in all; the log keeps \(retention.maxFiles) "
      + "\(retention.maxFiles == 1 ? "file" : "files") of \(ByteSizeText.write(retention.maxSize))"
  }

  /// Returns the total in the last note of this kind in a file; `nil` if the file contains no such
  /// note.
  static func lastTotalByteCount(in file: [UInt8]) -> Int? {
    var rest = file[...]
    while let end = rest.lastIndex(of: 0x0A) {
      let start = rest[..<end].lastIndex(of: 0x0A).map { $0 + 1 } ?? rest.startIndex
      if let total = totalByteCount(in: rest[start..<end]) { return total }
      rest = rest[..<start]
    }
    return nil
  }

  /// Parses `TIME note older lines were dropped: N bytes here, TOTAL in all; …`.
  private static func totalByteCount(in line: ArraySlice<UInt8>) -> Int? {
    let note = " note \(LogWriter.dropNote)".utf8
    guard let blank = line.firstIndex(of: UInt8(ascii: " ")), line[blank...].starts(with: note)
    else { return nil }
    let words = line[(blank + note.count)...].split(separator: UInt8(ascii: " "))
    return words.count > 3 ? Int(String(decoding: words[3], as: UTF8.self)) : nil
  }
}
