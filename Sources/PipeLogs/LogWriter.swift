import Glibc
import PipeSupport
import PipeSystem

/// Writes one node's log file, rotated by size. A full disk or any other error costs lines, which
/// are counted and reported, and nothing else.
///
/// Another program may remove, move or truncate the file at any time: the next line finds that out, and begins a new
/// file, or goes on in the shorter one, with a note of it.
///
/// Not safe for concurrent use: one thread owns it.
package final class LogWriter {
  /// What to tell once, not at every line.
  package enum Notice: Hashable, Sendable {
    case failing(SystemError)
    case recovered(lostLines: Int)
  }

  package let path: String
  /// The size at which a file is put aside. Unit: bytes. Default: 1 MiB.
  package let sizeLimit: Int
  /// The files kept, the current one included. Default: 3.
  package let fileCount: Int
  /// Lines that could not be written since the last that could.
  package private(set) var lostLines = 0
  /// Whether the last attempt failed.
  package private(set) var isFailing = false

  private var descriptor: Int32 = -1
  /// Of the open file.
  private var identity: FileIdentity?
  private var size = 0
  /// What another program has done to the file, until the file says so.
  private var interference: String?

  package init(path: String, sizeLimit: Int = 1 << 20, fileCount: Int = 3) {
    self.path = path
    self.sizeLimit = sizeLimit
    self.fileCount = max(fileCount, 1)
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Appends lines with one write.
  /// - Returns: The start or the end of trouble with the file, to be reported.
  package func write(
    _ lines: [String], from stream: LogStream, at time: Timestamp = .now
  ) -> Notice? {
    guard !lines.isEmpty else { return nil }
    findInterference()
    let prefix = "\(time) "
    var bytes: [UInt8] = []
    var ownLines = 0
    if let interference {
      bytes.append(contentsOf: "\(prefix)note \(interference)\n".utf8)
      ownLines += 1
    }
    if lostLines > 0 {
      bytes.append(contentsOf: "\(prefix)note \(lostLines) log lines lost here\n".utf8)
      ownLines += 1
    }
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
      if written >= ownLines, ownLines > 0 { lostLines = 0 }
      lostLines += lines.count - max(written - ownLines, 0)
      defer { isFailing = true }
      return isFailing ? nil : .failing(error.cause)
    }
    interference = nil
    guard isFailing else { return nil }
    defer { (isFailing, lostLines) = (false, 0) }
    return .recovered(lostLines: lostLines)
  }

  private struct WriteError: Error {
    var cause: SystemError
    /// Whole lines that reached the file. Unit: bytes.
    var written = 0
  }

  private func append(_ bytes: [UInt8]) throws(WriteError) {
    if descriptor >= 0, size > 0, size + bytes.count > sizeLimit { rotate() }
    try openIfClosed()
    let (count, problem) = FileSystem.write(bytes, to: descriptor)
    guard let problem else {
      size += count
      return
    }
    // Half a line would swallow the next one.
    let whole = (bytes[..<count].lastIndex(of: 0x0A) ?? -1) + 1
    ftruncate(descriptor, off_t(size + whole))
    // Opened anew next time: somebody may have removed the file or replaced the disk.
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

  /// Finds out what another program has done to the file since the last line.
  private func findInterference() {
    guard descriptor >= 0 else { return }
    if FileIdentity(path) != identity {
      interference = "the log file was removed or moved by another program; it begins again here"
      close(descriptor)
      (descriptor, identity) = (-1, nil)
      // The whole directory may have been removed.
      try? FileSystem.makeDirectories(FileSystem.directory(of: path), mode: 0o700)
    } else if let size = Self.size(of: descriptor), size != self.size {
      if size < self.size {
        interference = "the log file was truncated by another program; it goes on here"
      }
      self.size = size
      // A new file, so that no reader takes a place in the old text for one in the new.
      guard size == 0 else { return }
      unlink(path)
      close(descriptor)
      (descriptor, identity) = (-1, nil)
    }
  }

  private func rotate() {
    close(descriptor)
    (descriptor, identity) = (-1, nil)
    if fileCount == 1 { unlink(path) }
    for index in stride(from: fileCount - 2, through: 0, by: -1) {
      rename(index == 0 ? path : "\(path).\(index)", "\(path).\(index + 1)")
    }
  }
}
