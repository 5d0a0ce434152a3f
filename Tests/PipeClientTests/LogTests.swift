import Glibc
import PipeClient
import PipeSupervision
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Log lines")
struct LogLineSplitterTests {
  @Test(
    "Bytes are split into the same lines, however they arrive",
    arguments: [
      (["one\ntwo\n"], ["one", "two"]), (["o", "ne", "\n", "two\nth", "ree"], ["one", "two"]),
      (["\n\n"], ["", ""]), (["dos\r\n"], ["dos"]), (["", "x"], []),
    ])
  func lines(chunks: [String], lines: [String]) {
    var splitter = LogLineSplitter()
    #expect(chunks.flatMap { splitter.append(Array($0.utf8)) } == lines)
  }

  @Test("Text without a line end is the last line of its stream")
  func rest() {
    var splitter = LogLineSplitter()
    #expect(splitter.append(Array("a\nb".utf8)) == ["a"])
    #expect(splitter.finish() == "b")
    #expect(splitter.finish() == nil)
  }

  @Test("A line over the limit is split between characters without loss")
  func longLine() {
    var splitter = LogLineSplitter(limit: 10)
    let text = String(repeating: "añ€😀", count: 20)
    var lines: [String] = []
    for byte in Array(text.utf8) { lines += splitter.append([byte]) }
    lines += splitter.append([0x0A])
    #expect(lines.joined() == text)
    #expect(lines.allSatisfy { $0.utf8.count <= 10 })
  }

  @Test("A megabyte without a line end is buffered only up to the limit")
  func flood() {
    var splitter = LogLineSplitter()
    let lines = splitter.append([UInt8](repeating: 0x78, count: 1 << 20))
    #expect(lines.count == 15 && lines.allSatisfy { $0.utf8.count == 65536 })
    #expect(splitter.finish()?.utf8.count == 65536)
  }

  @Test("Bytes that are not UTF-8 are replaced, even where a long line is split")
  func invalid() {
    var splitter = LogLineSplitter(limit: 8)
    #expect(splitter.append([0x61, 0xFF, 0x62, 0x0A]) == ["a\u{FFFD}b"])
    #expect(splitter.append([UInt8](repeating: 0xBF, count: 64)).count == 7)
  }
}

@Suite("Log files")
struct LogFileTests {
  private let time = Timestamp("2026-11-20T09:00:00.123Z")!

  private func read(_ path: String) -> String {
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    return String(decoding: (try? FileSystem.read(descriptor)) ?? [], as: UTF8.self)
  }

  @Test(
    "A time is written in UTC and parsed back",
    arguments: [
      "1970-01-01T00:00:00.000Z", "2026-11-20T09:00:00.123Z", "2024-02-29T23:59:59.999Z",
      "1969-12-31T23:59:59.001Z",
    ])
  func timestamps(text: String) {
    #expect(Timestamp(text)?.description == text)
    #expect(Timestamp(text.dropLast()) == nil)
  }

  @Test("A line starts with its time and stream")
  func form() throws {
    let directory = try TemporaryDirectory()
    let writer = LogWriter(path: directory.path + "/door.log")
    #expect(writer.write(["hello", "you"], from: .out, at: time) == nil)
    #expect(writer.write(["oops"], from: .err, at: time) == nil)
    #expect(
      read(writer.path) == """
        2026-11-20T09:00:00.123Z out hello
        2026-11-20T09:00:00.123Z out you
        2026-11-20T09:00:00.123Z err oops

        """)
  }

  @Test("A full disk is reported once; log lines are lost, but no node stops")
  func fullDisk() {
    let writer = LogWriter(path: "/dev/full")
    let notice = writer.write(["a", "b"], from: .out, at: time)
    #expect(notice == .failing(SystemError("write", on: "/dev/full", code: ENOSPC)))
    #expect(writer.write(["c"], from: .out, at: time) == nil)
    #expect(writer.lostLines == 3)
  }

  @Test("The recovery of a log is reported once, and the file says how many lines are missing")
  func recovery() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/logs/door.log"
    let writer = LogWriter(path: path)
    guard case .failing(let error) = writer.write(["a"], from: .out, at: time) else {
      Issue.record("the directory is missing, so the write must fail")
      return
    }
    #expect(error.code == ENOENT)
    try FileSystem.makeDirectories(directory.path + "/logs")
    #expect(writer.write(["b"], from: .out, at: time) == .recovered(lostLines: 1))
    #expect(writer.write(["c"], from: .out, at: time) == nil)
    #expect(read(path).contains("note 1 log lines lost here\n"))
    #expect(writer.lostLines == 0)
  }

  /// A change that another program makes to a log while lines are written to the log.
  enum Interference: CaseIterable {
    case removed, moved, movedAndRemade, truncated, directoryRemoved
  }

  @Test(
    "A removed, moved or truncated log continues with a note, and its readers miss no line",
    arguments: Interference.allCases)
  func interference(_ what: Interference) throws {
    let directory = try TemporaryDirectory()
    let logs = directory.path + "/logs"
    try FileSystem.makeDirectories(logs)
    let writer = LogWriter(path: logs + "/door.log")
    var reader = LogReader(directory: logs)
    var read: [String] = []
    for round in 0..<3 {
      #expect(writer.write(["line \(round)"], from: .out, at: time) == nil)
      read += reader.next().map(\.text)
      switch what {
      case .removed: #expect(unlink(writer.path) == 0)
      case .moved: #expect(rename(writer.path, writer.path + ".\(3 - round)") == 0)
      case .movedAndRemade:
        #expect(rename(writer.path, logs + "/door.old\(round)") == 0)
        close(open(writer.path, O_WRONLY | O_CREAT, 0o600))
      case .truncated: #expect(truncate(writer.path, 0) == 0)
      case .directoryRemoved: FileSystem.removeTree(logs)
      }
      #expect(writer.write(["after \(round)"], from: .out, at: time) == nil)
      read += reader.next().map(\.text)
    }
    let lines = read.filter { !$0.hasPrefix("the log file was") }
    #expect(lines == (0..<3).flatMap { ["line \($0)", "after \($0)"] }, "\(read)")
    // Each of the three changes has one note.
    #expect(read.count - lines.count == 3, "\(read)")
    #expect(self.read(writer.path).hasSuffix("out after 2\n"))
  }

  @Test("A reader that follows a log does not repeat lines after the log was removed")
  func removedAfterRotation() throws {
    let directory = try TemporaryDirectory()
    let writer = LogWriter(
      path: directory.path + "/door.log", keeping: LogRetention(maxSize: 100, maxFiles: 20))
    // More files than a position names.
    for index in 0..<40 { _ = writer.write(["line \(index)"], from: .out, at: time) }
    var reader = LogReader(directory: directory.path)
    _ = reader.next(limit: 1)
    #expect(unlink(writer.path) == 0)
    #expect(reader.next().isEmpty)
    _ = writer.write(["new"], from: .out, at: time)
    #expect(reader.next().filter { $0.stream == .out }.map(\.text) == ["new"])
    #expect(reader.next().isEmpty)
  }

  @Test(
    "An entry that is written while logs are read is delivered by the next read"
  )
  func orderAcrossLooks() throws {
    let directory = try TemporaryDirectory()
    let door = LogWriter(path: directory.path + "/door.log")
    let motor = LogWriter(path: directory.path + "/motor.log")
    var reader = LogReader(directory: directory.path)
    _ = door.write(["a"], from: .out)
    _ = motor.write(["b"], from: .out)
    #expect(reader.next(isFollowed: true).map(\.text) == ["a", "b"])
    // 'door' is read first. The next line of 'door' is written after that, and before the line of
    // 'motor'.
    var time = Timestamp.now.milliseconds
    var looks = 0
    let entries = reader.next(isFollowed: true) {
      time += 1
      looks += 1
      if looks == 1 { _ = motor.write(["d"], from: .out, at: Timestamp(milliseconds: time + 2)) }
      if looks == 2 {
        _ = door.write(["c"], from: .out, at: Timestamp(milliseconds: time))
        time += 10
      }
      return Timestamp(milliseconds: time)
    }
    #expect(entries.isEmpty, "\(entries)")
    #expect(
      reader.next(isFollowed: true) { Timestamp(milliseconds: time + 1) }.map(\.text) == ["c", "d"])
    #expect(reader.next().isEmpty)
  }

  @Test(
    "Logs keep the order of their lines when the clock is set back, and each log notes the change"
  )
  func clockSetBack() throws {
    let directory = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: directory.roots)
    try FileSystem.makeDirectories(directories.logs)
    let second: Int64 = 1_000_000_000
    var now = BootClock.Instant(timeOfDay: 5_000 * second, timeSinceBoot: 0)
    let logs = NodeLogs(in: directories, clock: { now }) { Issue.record("\($0)") }
    var expected: [String] = []
    func write(_ node: String, afterSetting step: Int64 = 0) {
      now.timeSinceBoot += second
      now.timeOfDay += second + step * second
      logs.noteClock()
      expected.append("\(expected.count)")
      _ = logs.writer(of: node).write(
        [expected[expected.count - 1]], from: .out, at: Timestamp(nanoseconds: now.timeOfDay))
    }
    for node in ["door", "motor", "door", "lamp"] { write(node) }
    write("motor", afterSetting: -3_600)
    for node in ["door", "lamp", "motor"] { write(node) }
    write("door", afterSetting: 1_800)
    write("lamp", afterSetting: -60)
    for node in ["motor", "door"] { write(node) }
    var reader = LogReader(directory: directories.logs)
    let entries = reader.next()
    #expect(entries.filter { $0.stream == .out }.map(\.text) == expected)
    for node in ["door", "motor", "lamp"] {
      let notes = entries.filter { $0.node == node && $0.stream == .note }.map(\.text)
      #expect(notes == ["the clock was set back by 1 h", "the clock was set back by 1 min"])
    }
    // The same holds for the last lines alone.
    var last = LogReader(directory: directories.logs)
    let tail = last.next(limit: 4).filter { $0.stream == .out }.map(\.text)
    #expect(tail == expected.suffix(tail.count), "\(tail)")
  }

  @Test("Files are rotated by size, and a limited number is kept")
  func rotation() throws {
    let directory = try TemporaryDirectory()
    let writer = LogWriter(
      path: directory.path + "/door.log", keeping: LogRetention(maxSize: 1_000))
    // Writes the first lines one by one, and the others in one burst.
    for index in 0..<100 { _ = writer.write(["line \(index)"], from: .out, at: time) }
    _ = writer.write((100..<200).map { "line \($0)" }, from: .out, at: time)
    #expect(FileSystem.entryNames(of: directory.path) == ["door.log", "door.log.1", "door.log.2"])
    var reader = LogReader(directory: directory.path)
    let lines = reader.next().filter { $0.stream == .out }.map(\.text)
    #expect(lines.last == "line 199")
    #expect(lines == (200 - lines.count..<200).map { "line \($0)" })
    // The note at the start of a file may exceed the size.
    for path in ["", ".1", ".2"] { #expect(read(writer.path + path).utf8.count <= 1_150) }
  }

  @Test(
    "Each log file that follows a dropped file says how many bytes were dropped"
  )
  func dropped() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/door.log"
    var written = 0
    func kept() -> [String] {
      FileSystem.entryNames(of: directory.path).sorted().reversed().map {
        read(directory.path + "/" + $0)
      }
    }
    func notes() -> [(here: Int, total: Int)] {
      kept().flatMap { $0.split(separator: "\n") }.filter {
        $0.contains("older lines were dropped: ")
      }
      .map { line in
        let words = line.split(separator: " ")
        return (Int(words[6]) ?? 0, Int(words[9]) ?? 0)
      }
    }
    var retention = LogRetention(maxSize: 1_000, maxFiles: 4)
    var notesWritten = 0
    for round in 0..<6 {
      if round == 3 { retention.maxFiles = 1 }
      if round == 4 { retention.maxFiles = 3 }
      // A new process continues to write.
      let writer = LogWriter(path: path, keeping: retention)
      for index in 0..<90 {
        let before = kept().joined().utf8.count
        let total = notes().last?.total ?? 0
        _ = writer.write(["line \(index)"], from: .out, at: time)
        let line = "2026-11-20T09:00:00.123Z out line \(index)\n".utf8.count
        let after = kept().joined().utf8.count
        let newest = notes().last?.total ?? 0
        // The kept and the dropped bytes are all bytes that were written, including the notes.
        let note = before + line - (newest - total) - after
        #expect(note <= 0)
        if note != 0 { #expect(newest > total, "\(kept())") }
        notesWritten -= note
        written += line
      }
      #expect(kept().count == min(retention.maxFiles, kept().count))
    }
    #expect(kept().count == 3)
    #expect(kept().allSatisfy { $0.contains("older lines were dropped: ") })
    #expect(notes().last?.total == written + notesWritten - kept().joined().utf8.count)
    #expect(kept().last?.contains("in all; the log keeps 3 files of 1KB\n") == true)
  }

  @Test("A writer without a retention does not delete the topology's log files")
  func additions() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/door.log"
    let writer = LogWriter(path: path, keeping: LogRetention(maxSize: 500, maxFiles: 9))
    for index in 0..<400 { _ = writer.write(["line \(index)"], from: .out, at: time) }
    #expect(FileSystem.entryNames(of: directory.path).count == 9)
    let before = read(path)
    _ = LogWriter(path: path, keeping: nil).write([String(repeating: "x", count: 600)], from: .note)
    #expect(FileSystem.entryNames(of: directory.path).count == 9)
    #expect(read(path).hasPrefix(before))
  }

  @Test(
    "A reader gets the lines since a given time, even from rotated files",
    arguments: [(nil, 0, nil), (7, 7, nil), (11, 11, nil), (12, 12, nil), (3, 10, 2), (11, 11, 2)]
      as [(Int64?, Int, Int?)])
  func since(time: Int64?, first: Int, limit: Int?) throws {
    let directory = try TemporaryDirectory()
    let door = LogWriter(
      path: directory.path + "/door.log", keeping: LogRetention(maxSize: 200))
    for index in 0..<12 {
      _ = door.write(["\(index)"], from: .out, at: Timestamp(milliseconds: Int64(index)))
    }
    #expect(FileSystem.entryNames(of: directory.path).count > 1)
    var reader = LogReader(directory: directory.path)
    let read = reader.next(limit: limit, since: time.map { Timestamp(milliseconds: $0) })
    #expect(read.map(\.text) == (first..<12).map(String.init))
    _ = door.write(["new"], from: .out, at: Timestamp(milliseconds: 12))
    #expect(reader.next(limit: limit).map(\.text) == ["new"])
  }

  @Test("A reader gets the last lines of all nodes in order of time, and then new lines")
  func follow() throws {
    let directory = try TemporaryDirectory()
    let door = LogWriter(
      path: directory.path + "/door.log", keeping: LogRetention(maxSize: 200))
    let motor = LogWriter(path: directory.path + "/motor.log")
    var millisecond: Int64 = 0
    func write(_ writer: LogWriter, _ text: String) {
      millisecond += 1
      _ = writer.write([text], from: .out, at: Timestamp(milliseconds: millisecond))
    }
    for index in 0..<12 { write(index % 2 == 0 ? door : motor, "\(index)") }
    var reader = LogReader(directory: directory.path)
    #expect(reader.next(limit: 2).map(\.text) == ["8", "9", "10", "11"])
    #expect(reader.next().isEmpty)
    // Rotates twice: the lines in between are read from the rotated files.
    for index in 12..<24 { write(door, "\(index)") }
    #expect(reader.next().map(\.text) == (12..<24).map(String.init))
    write(LogWriter(path: directory.path + "/new.log"), "new node")
    #expect(reader.next().map(\.node) == ["new"])
    var chosen = LogReader(directory: directory.path, nodes: ["motor", "nobody"])
    #expect(chosen.next().allSatisfy { $0.node == "motor" })
  }

  @Test("A line that was manually added to a log file is shown in its position")
  func foreignLine() throws {
    let directory = try TemporaryDirectory()
    let writer = LogWriter(path: directory.path + "/door.log")
    _ = writer.write(["a"], from: .out, at: time)
    let file = open(writer.path, O_WRONLY | O_APPEND)
    _ = Glibc.write(file, "by hand\n", 8)
    close(file)
    var reader = LogReader(directory: directory.path)
    #expect(reader.next().map(\.text) == ["a", "by hand"])
  }
}
