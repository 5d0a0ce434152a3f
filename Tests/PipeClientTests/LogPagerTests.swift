import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Pages of logs")
struct LogPagerTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var pager: LogPager { LogPager(directory: directory.path) }

  private func writer(_ node: String, sizeLimit: Int = 1 << 20) -> LogWriter {
    LogWriter(path: directory.path + "/\(node).log", keeping: LogRetention(maxSize: sizeLimit))
  }

  private func time(_ seconds: Int64) -> Timestamp {
    Timestamp(milliseconds: 1_764_000_000_000 + seconds * 1_000)
  }

  private func texts(_ page: LogPage) -> [String] { page.lines.map { LogEntry($0).text } }

  /// Returns all pages from these positions on.
  private func rest(_ request: LogRequest) -> (
    lines: [String], pages: Int, positions: [LogPosition]
  ) {
    var (request, lines, pages) = (request, [String](), 0)
    while true {
      let page = pager.page(request)
      lines += texts(page)
      request.positions = page.positions
      pages += 1
      guard page.hasMore, pages < 1_000 else { return (lines, pages, page.positions) }
    }
  }

  @Test("Lines of several logs come in the order of their times, followed by new lines")
  func order() {
    let (door, motor) = (writer("door"), writer("motor"))
    _ = door.write(["1"], from: .out, at: time(1))
    _ = motor.write(["2"], from: .err, at: time(2))
    _ = door.write(["3"], from: .note, at: time(3))
    let page = pager.page(LogRequest())
    #expect(texts(page) == ["1", "2", "3"] && !page.hasMore)
    #expect(page.lines.map { LogEntry($0).stream } == [.out, .err, .note])
    #expect(texts(pager.page(LogRequest(positions: page.positions))).isEmpty)
    _ = door.write(["4"], from: .out, at: time(4))
    _ = writer("late").write(["5"], from: .out, at: time(5))
    let next = pager.page(LogRequest(lines: 1, positions: page.positions))
    #expect(texts(next) == ["4", "5"] && next.positions.count == 3)
    #expect(texts(pager.page(LogRequest(nodes: ["motor", "nobody"]))) == ["2"])
  }

  @Test("The first page has the last lines of each log, or the lines since a given time")
  func beginning() {
    let door = writer("door")
    for second in 1...9 { _ = door.write(["\(second)"], from: .out, at: time(Int64(second))) }
    #expect(texts(pager.page(LogRequest(lines: 2))) == ["8", "9"])
    #expect(texts(pager.page(LogRequest(since: time(7).milliseconds))) == ["7", "8", "9"])
    #expect(texts(pager.page(LogRequest(lines: 1, since: time(7).milliseconds))) == ["9"])
    let none = pager.page(LogRequest(since: time(60).milliseconds))
    #expect(none.lines.isEmpty && none.positions.count == 1)
    for lines in [0, -1, .min] { #expect(texts(pager.page(LogRequest(lines: lines))).isEmpty) }
    #expect(texts(pager.page(LogRequest(lines: .max))).count == 9)
    // Positions that do not belong to this log.
    let file = none.positions[0].file
    for mark in [
      LogPosition(node: "door", file: "x", offset: 3),
      LogPosition(node: "door", file: file, offset: -1),
      LogPosition(node: "door", file: file, offset: .max),
    ] { #expect(texts(pager.page(LogRequest(positions: [mark]))).count == 9) }
    _ = door.write(["10"], from: .out, at: time(10))
    #expect(texts(pager.page(LogRequest(positions: none.positions))) == ["10"])
  }

  @Test("Lines that exceed a page come with the next pages, complete and in order")
  func parts() {
    let (door, motor) = (writer("door"), writer("motor"))
    let padding = String(repeating: "x", count: 1_000)
    var all: [String] = []
    for second in 0..<1_500 {
      let text = "\(second) \(padding)"
      // The motor has fewer lines. They must not come before lines of the door that are still
      // pending.
      let log = second % 10 == 0 ? motor : door
      _ = log.write([text], from: .out, at: time(Int64(second)))
      all.append(text)
    }
    let (lines, pages, positions) = rest(LogRequest())
    #expect(lines == all)
    #expect(pages >= 3)
    for page in [pager.page(LogRequest()), pager.page(LogRequest(lines: 10))] {
      #expect(page.lines.reduce(0) { $0 + $1.text.utf8.count } <= 512 << 10)
    }
    #expect(rest(LogRequest(positions: positions)).lines.isEmpty)
  }

  @Test(
    "The last lines are found in rotated files, without reading the other files",
    arguments: [1, 7, 8, 40, 1_000], [nil, 10, 390] as [Int?])
  func lastLines(limit: Int, since: Int?) throws {
    let door = LogWriter(
      path: directory.path + "/door.log", keeping: LogRetention(maxSize: 500, maxFiles: 100))
    for second in 0..<400 { _ = door.write(["\(second)"], from: .out, at: time(Int64(second))) }
    let since = since.map { time(Int64($0)) }
    let lines = rest(LogRequest(lines: limit, since: since?.milliseconds)).lines
    let wanted = (0..<400).filter { second in since.map { time(Int64(second)) >= $0 } ?? true }
    #expect(lines == wanted.suffix(limit).map(String.init))
  }

  @Test("Rotation loses no lines of a log that is read in time")
  func rotation() {
    let door = writer("door", sizeLimit: 1_000)
    _ = door.write(["first"], from: .out, at: time(0))
    var positions = pager.page(LogRequest()).positions
    var lines: [String] = []
    for second in 1...200 {
      _ = door.write(["\(second)"], from: .out, at: time(Int64(second)))
      guard second % 20 == 0 else { continue }
      let page = pager.page(LogRequest(positions: positions))
      lines += texts(page).filter { Int($0) != nil }
      positions = page.positions
    }
    #expect(lines == (1...200).map(String.init))
    // The oldest files were removed by rotation, and the remaining files are read.
    for second in 201...400 { _ = door.write(["\(second)"], from: .out, at: time(Int64(second))) }
    let late = rest(LogRequest(positions: positions)).lines.filter { Int($0) != nil }
    #expect(late.last == "400" && !late.contains("201"))
    #expect(late == (Int(late[0])!...400).map(String.init))
  }

  @Test(
    "An unfinished line is delivered when it is complete, and an endless line in parts")
  func unfinished() throws {
    let path = directory.path + "/door.log"
    func write(_ text: String) throws {
      let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      defer { close(descriptor) }
      try FileSystem.write(Array(text.utf8), to: descriptor, path: path)
    }
    try write("\(time(1)) out whole\n\(time(2)) out ha")
    let page = pager.page(LogRequest())
    #expect(texts(page) == ["whole"] && !page.hasMore)
    try write("\(time(1)) out whole\n\(time(2)) out half\n")
    #expect(texts(pager.page(LogRequest(positions: page.positions))).last == "half")
    try write(String(repeating: "x", count: 2 << 20))
    let (lines, _, _) = rest(LogRequest())
    #expect(lines.allSatisfy { $0.utf8.count <= 512 << 10 } && lines.count >= 4)
  }

  @Test("If the clock is set back, no log line is repeated or missing")
  func clock() {
    let (door, motor) = (writer("door"), writer("motor"))
    for second in [5, 6, 2, 3, 7] as [Int64] {
      _ = door.write(["door \(second)"], from: .out, at: time(second))
      _ = motor.write(["motor \(second)"], from: .out, at: time(second))
    }
    let page = pager.page(LogRequest())
    let own = texts(page).filter { $0.hasPrefix("door") }
    #expect(own == [5, 6, 2, 3, 7].map { "door \($0)" } && page.lines.count == 10)
    #expect(pager.page(LogRequest(positions: page.positions)).lines.isEmpty)
  }
}
