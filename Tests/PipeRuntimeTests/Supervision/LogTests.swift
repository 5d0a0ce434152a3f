import Glibc
import PipeLogs
import PipeRuntime
import PipeSupervision
import Testing

@Suite("Log lines")
struct LogLineSplitterTests {
  @Test(
    "bytes become lines however they arrive",
    arguments: [
      (["one\ntwo\n"], ["one", "two"]), (["o", "ne", "\n", "two\nth", "ree"], ["one", "two"]),
      (["\n\n"], ["", ""]), (["dos\r\n"], ["dos"]), (["", "x"], []),
    ])
  func lines(chunks: [String], lines: [String]) {
    var splitter = LogLineSplitter()
    #expect(chunks.flatMap { splitter.append(Array($0.utf8)) } == lines)
  }

  @Test("the rest of a stream without a line end is its last line")
  func rest() {
    var splitter = LogLineSplitter()
    #expect(splitter.append(Array("a\nb".utf8)) == ["a"])
    #expect(splitter.finish() == "b")
    #expect(splitter.finish() == nil)
  }

  @Test("a line over the limit is cut between characters and loses nothing")
  func longLine() {
    var splitter = LogLineSplitter(limit: 10)
    let text = String(repeating: "añ€😀", count: 20)
    var lines: [String] = []
    for byte in Array(text.utf8) { lines += splitter.append([byte]) }
    lines += splitter.append([0x0A])
    #expect(lines.joined() == text)
    #expect(lines.allSatisfy { $0.utf8.count <= 10 })
  }

  @Test("a megabyte without a line end is held only up to the limit")
  func flood() {
    var splitter = LogLineSplitter()
    let lines = splitter.append([UInt8](repeating: 0x78, count: 1 << 20))
    #expect(lines.count == 15 && lines.allSatisfy { $0.utf8.count == 65536 })
    #expect(splitter.finish()?.utf8.count == 65536)
  }

  @Test("bytes that are not UTF-8 are replaced, also where a long line is cut")
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
    "a time is written in UTC and read again",
    arguments: [
      "1970-01-01T00:00:00.000Z", "2026-11-20T09:00:00.123Z", "2024-02-29T23:59:59.999Z",
      "1969-12-31T23:59:59.001Z",
    ])
  func timestamps(text: String) {
    #expect(Timestamp(text)?.description == text)
    #expect(Timestamp(text.dropLast()) == nil)
  }

  @Test("a line has its time and stream in front")
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

  @Test("a full disk is reported once and loses lines, not the node")
  func fullDisk() {
    let writer = LogWriter(path: "/dev/full")
    let notice = writer.write(["a", "b"], from: .out, at: time)
    #expect(notice == .failing(SystemError("write", on: "/dev/full", code: ENOSPC)))
    #expect(writer.write(["c"], from: .out, at: time) == nil)
    #expect(writer.lostLines == 3)
  }

  @Test("when writing works again that is reported once, and the file says what is missing")
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

  @Test("files are put aside by size, and only so many are kept")
  func rotation() throws {
    let directory = try TemporaryDirectory()
    let writer = LogWriter(path: directory.path + "/door.log", sizeLimit: 100, fileCount: 3)
    for index in 0..<20 { _ = writer.write(["line \(index)"], from: .out, at: time) }
    #expect(FileSystem.entries(of: directory.path) == ["door.log", "door.log.1", "door.log.2"])
    var reader = LogReader(directory: directory.path)
    let lines = reader.next().map(\.text)
    #expect(lines.last == "line 19")
    #expect(lines == (20 - lines.count..<20).map { "line \($0)" })
    for path in ["", ".1", ".2"] { #expect(read(writer.path + path).utf8.count <= 100) }
  }

  @Test(
    "a reader gets what was written since a time, of the files put aside, too",
    arguments: [(nil, 0, nil), (7, 7, nil), (11, 11, nil), (12, 12, nil), (3, 10, 2), (11, 11, 2)]
      as [(Int64?, Int, Int?)])
  func since(time: Int64?, first: Int, limit: Int?) throws {
    let directory = try TemporaryDirectory()
    let door = LogWriter(path: directory.path + "/door.log", sizeLimit: 200)
    for index in 0..<12 {
      _ = door.write(["\(index)"], from: .out, at: Timestamp(milliseconds: Int64(index)))
    }
    #expect(FileSystem.entries(of: directory.path).count > 1)
    var reader = LogReader(directory: directory.path)
    let read = reader.next(limit: limit, since: time.map { Timestamp(milliseconds: $0) })
    #expect(read.map(\.text) == (first..<12).map(String.init))
    _ = door.write(["new"], from: .out, at: Timestamp(milliseconds: 12))
    #expect(reader.next(limit: limit).map(\.text) == ["new"])
  }

  @Test("a reader gets the last lines of each node in order of time, then what is added")
  func follow() throws {
    let directory = try TemporaryDirectory()
    let door = LogWriter(path: directory.path + "/door.log", sizeLimit: 200)
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
    // Rotates twice: what went by in between is read from the files put aside.
    for index in 12..<24 { write(door, "\(index)") }
    #expect(reader.next().map(\.text) == (12..<24).map(String.init))
    write(LogWriter(path: directory.path + "/new.log"), "new node")
    #expect(reader.next().map(\.node) == ["new"])
    var chosen = LogReader(directory: directory.path, nodes: ["motor", "nobody"])
    #expect(chosen.next().allSatisfy { $0.node == "motor" })
  }

  @Test("a line that somebody wrote by hand is shown at its place")
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
