import Glibc
import PipeSystem
import TestSupport
import Testing

@Suite("Output that a separate thread writes")
struct OutputQueueTests {
  /// A pipe whose ends are closed when this object is deallocated.
  private final class Pipe {
    private(set) var read: Int32 = -1
    private(set) var write: Int32 = -1

    init() throws {
      var ends: [Int32] = [-1, -1]
      guard pipe(&ends) == 0 else { throw SystemError("pipe", code: errno) }
      (read, write) = (ends[0], ends[1])
    }

    deinit {
      closeRead()
      close(write)
    }

    func closeRead() {
      if read >= 0 { close(read) }
      read = -1
    }

    /// Leaves no capacity in the pipe, so that the next write waits for a reader.
    func fill() {
      let flags = fcntl(write, F_GETFL)
      _ = fcntl(write, F_SETFL, flags | O_NONBLOCK)
      let page = [UInt8](repeating: UInt8(ascii: "\n"), count: 4_096)
      while Glibc.write(write, page, page.count) > 0 {}
      _ = fcntl(write, F_SETFL, flags)
    }

    /// Reads until all queued text is written.
    func text(until queue: OutputQueue) -> String {
      var text = ""
      while true {
        let isLast = queue.isEmpty
        var item = pollfd(fd: read, events: Int16(POLLIN), revents: 0)
        if poll(&item, 1, isLast ? 0 : 10) > 0 {
          var buffer = [UInt8](repeating: 0, count: 65_536)
          let count = Glibc.read(read, &buffer, buffer.count)
          text += String(decoding: buffer[..<max(0, count)], as: UTF8.self)
        } else if isLast {
          return text
        }
      }
    }

    /// Reads up to and including this text.
    func text(upTo end: String) -> String {
      var text: [UInt8] = []
      while !text.suffix(end.utf8.count).elementsEqual(end.utf8) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(read, &buffer, buffer.count)
        guard count > 0 else { break }
        text += buffer[..<count]
      }
      return String(decoding: text, as: UTF8.self)
    }
  }

  private static func lines(_ numbers: Range<Int>) -> [UInt8] {
    Array(numbers.map { "line \($0)\n" }.joined().utf8)
  }

  /// Returns the number of missing lines, and the numbers of the present ones.
  private static func parts(of text: String) -> (missing: Int, lines: [Int]) {
    var (missing, lines): (Int, [Int]) = (0, [])
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if words.first == "line", let number = Int(words[1]) { lines.append(number) }
      if words.first == "orchestrator:", let count = Int(words[1]) { missing += count }
    }
    return (missing, lines)
  }

  @Test("A reader that stops reading delays no writer, and later gets the number of missing lines")
  func stalled() throws {
    let pipe = try Pipe()
    pipe.fill()
    let queue = OutputQueue(pipe.write, byteLimit: 1_000)
    let count = 20_000
    for number in 0..<count { #expect(queue.append(Self.lines(number..<number + 1))) }
    #expect(!queue.isEmpty)
    queue.drain(patience: .milliseconds(10))
    #expect(!queue.isEmpty)
    let (missing, lines) = Self.parts(of: pipe.text(until: queue))
    #expect(missing > 0 && missing + lines.count == count)
    #expect(lines == lines.sorted() && lines.first == 0)
    // The output continues once there is capacity.
    queue.append(Array("end\n".utf8))
    #expect(pipe.text(upTo: "end\n") == "end\n")
    queue.drain(patience: .seconds(60))
    #expect(queue.isEmpty)
  }

  @Test("Lines stay in order, and every line arrives or is counted, whatever the reader's pace")
  func anyPace() throws {
    for seed in 0..<20 as Range<UInt64> {
      var random = Seeded(state: seed)
      let pipe = try Pipe()
      let queue = OutputQueue(pipe.write, byteLimit: Int.random(in: 200...20_000, using: &random))
      var next = 0
      var text = ""
      for _ in 0..<200 {
        let count = Int.random(in: 1...50, using: &random)
        queue.append(Self.lines(next..<next + count))
        next += count
        var item = pollfd(fd: pipe.read, events: Int16(POLLIN), revents: 0)
        guard Int.random(in: 0..<3, using: &random) == 0, poll(&item, 1, 1) > 0 else { continue }
        var buffer = [UInt8](repeating: 0, count: Int.random(in: 1...9_000, using: &random))
        let read = Glibc.read(pipe.read, &buffer, buffer.count)
        text += String(decoding: buffer[..<max(0, read)], as: UTF8.self)
      }
      // Lines that were dropped are reported as soon as the queue is drained.
      text += pipe.text(until: queue)
      queue.append(Array("end\n".utf8))
      text += pipe.text(upTo: "end\n")
      let (missing, lines) = Self.parts(of: text)
      #expect(missing + lines.count == next, "seed \(seed)")
      #expect(lines == lines.sorted(), "seed \(seed)")
    }
  }

  @Test("The output ends when its reader has closed the pipe")
  func gone() throws {
    signal(SIGPIPE, SIG_IGN)
    let pipe = try Pipe()
    let queue = OutputQueue(pipe.write)
    pipe.closeRead()
    queue.append(Array("one\n".utf8))
    queue.drain(patience: .seconds(60))
    #expect(!queue.isOpen && queue.isEmpty)
    #expect(!queue.append(Array("two\n".utf8)))
  }

  @Test("If the disk is full, lines are lost, and the output continues")
  func fullDisk() {
    let descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC)
    let queue = OutputQueue(descriptor)
    // Often enough to meet the writer at each point of its loop.
    var isSettled = true
    for _ in 0..<1_000 where isSettled {
      let isAppended = queue.append(Array("one\n".utf8))
      queue.drain(patience: .seconds(60))
      isSettled = isAppended && queue.isOpen && queue.isEmpty
    }
    #expect(isSettled)
  }
}
