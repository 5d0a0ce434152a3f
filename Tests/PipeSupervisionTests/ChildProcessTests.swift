import Glibc
import PipeClient
import PipeSupervision
import PipeSystem
import TestSupport
import Testing

@Suite("Child processes")
struct ChildProcessTests {
  /// Runs a shell script to its end, and returns its exit status and output.
  private func run(
    _ script: String, environment: [String: String] = [:], directory: String? = nil
  ) throws -> (status: ProcessExit?, output: String, error: String) {
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", script], environment: environment,
        directory: directory))
    let output = readToEnd(child.outputDescriptor)
    let error = readToEnd(child.errorDescriptor)
    child.closePipes()
    return (child.wait(), output, error)
  }

  private func readToEnd(_ descriptor: Int32) -> String {
    var text: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      poll(&item, 1, 300_000)
      let count = read(descriptor, &buffer, buffer.count)
      guard count > 0 else { return String(decoding: text, as: UTF8.self) }
      text += buffer[..<count]
    }
  }

  @Test(
    "A child's exit code or signal is reported",
    arguments: [
      ("exit 0", ProcessExit.exited(code: 0), "exit code 0"),
      ("exit 3", .exited(code: 3), "exit code 3"),
      ("kill -9 $$", .signalled(number: 9), "killed by SIGKILL"),
      ("kill -TERM $$", .signalled(number: 15), "killed by SIGTERM"),
      ("kill -40 $$", .signalled(number: 40), "killed by signal 40"),
    ])
  func status(script: String, expected: ProcessExit, text: String) throws {
    let status = try run(script).status
    #expect(status == expected)
    #expect(status?.description == text)
  }

  @Test(
    "A child gets its environment, directory and an empty stdin, and separate stdout and stderr")
  func surroundings() throws {
    let result = try run(
      "cat; echo $NAME; pwd; echo oops >&2", environment: ["NAME": "door"], directory: "/usr")
    #expect(result.output == "door\n/usr\n")
    #expect(result.error == "oops\n")
  }

  @Test("A child reads its stdin pipe until the writer closes the pipe")
  func input() throws {
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    var child = try ChildProcess.spawn(
      ChildCommand(path: "/bin/cat", input: ends[0]))
    close(ends[0])
    #expect(write(ends[1], "token", 5) == 5)
    close(ends[1])
    #expect(readToEnd(child.outputDescriptor) == "token")
    #expect(child.wait() == .exited(code: 0))
    child.closePipes()
  }

  @Test("A child inherits only stdin, stdout and stderr")
  func descriptors() throws {
    let held = open("/dev/null", O_RDONLY)  // deliberately without close-on-exec
    defer { close(held) }
    // The listing itself holds one more descriptor: the directory that it reads.
    let listed = try run("for file in /proc/self/fd/*; do echo ${file##*/}; done").output
    let numbers = listed.split(separator: "\n").compactMap { Int32($0) }
    #expect(numbers.filter { $0 > 2 && $0 != held }.count <= 1)
    #expect(held <= 3 || !numbers.contains(held))
  }

  @Test("A child starts with default signal handling and leads its own process group")
  func signals() throws {
    let output = try run("grep -E 'SigBlk|SigIgn' /proc/self/status").output
    let masks = output.split(separator: "\n").compactMap {
      UInt64($0.drop { $0 != "\t" }.dropFirst(), radix: 16)
    }
    // Signals 32 and 33 belong to the C library, which does not allow changes.
    #expect(masks.map { $0 & ~0x1_8000_0000 } == [0, 0])
    var child = try ChildProcess.spawn(ChildCommand(path: "/bin/sleep", arguments: ["60"]))
    #expect(getpgid(child.pid) == child.pid)
    #expect(child.signal(.kill, group: true))
    #expect(child.wait() == .signalled(number: SIGKILL))
    child.closePipes()
  }

  @Test(
    "A child can be killed at any time after its launch, even before it leads its process group")
  func earlyKill() throws {
    for _ in 0..<20 {
      var child = try ChildProcess.launch(
        ChildCommand(path: "/bin/sleep", arguments: ["60"], deathSignal: .kill))
      // Suspends the child wherever it is, so that it does not proceed by itself.
      #expect(child.signal(.stop))
      #expect(child.signal(.kill, group: true))
      let deadline = ContinuousClock.now + .seconds(10)
      while child.reap() == nil, ContinuousClock.now < deadline { sched_yield() }
      #expect(child.exit == .signalled(number: SIGKILL))
      child.signal(.kill)
      child.closePipes()
    }
  }

  @Test(
    "A program that cannot be started causes an error that says what to do",
    arguments: [
      ("/nonexistent/program", nil, "build the program"),
      ("/etc/passwd", nil, "chmod +x"),
      ("/bin/true", "/nonexistent", "directory '/nonexistent'"),
    ])
  func cannotStart(path: String, directory: String?, advice: String) throws {
    let error = try #require(throws: SpawnError.self) {
      try ChildProcess.spawn(ChildCommand(path: path, directory: directory))
    }
    #expect(error.description.contains(path))
    #expect(error.description.contains(advice))
  }

  @Test("A launch does not wait for exec, and reports a failure of exec later with its cause")
  func launch() throws {
    for (path, failure) in [("/nonexistent/program", "build the program"), ("/bin/true", nil)] {
      var child = try ChildProcess.launch(ChildCommand(path: path))
      var item = pollfd(fd: child.reportDescriptor, events: Int16(POLLIN), revents: 0)
      #expect(poll(&item, 1, 300_000) == 1)
      let error = child.readReport()
      #expect(child.reportDescriptor == -1)
      #expect((error == nil) == (failure == nil))
      if let failure { #expect(error?.description.contains(failure) == true) }
      #expect(child.readReport() == nil)
      #expect(child.wait() == .exited(code: failure == nil ? 0 : 127))
      child.closePipes()
    }
  }

  @Test("A running child has no exit status, and a reaped child cannot be signalled")
  func reap() throws {
    var child = try ChildProcess.spawn(ChildCommand(path: "/bin/sleep", arguments: ["60"]))
    #expect(child.reap() == nil)
    child.signal(.terminate)
    #expect(child.wait() == .signalled(number: SIGTERM))
    #expect(child.reap() == .signalled(number: SIGTERM))
    #expect(!child.signal(.kill))
    child.closePipes()
  }

  @Test("A child's own children end together with the child")
  func group() throws {
    var child = try ChildProcess.spawn(
      ChildCommand(path: "/bin/sh", arguments: ["-c", "sleep 60 & echo started"]))
    child.wait()
    #expect(!readToEnd(child.outputDescriptor).isEmpty)
    // End of file instead of "nothing yet": the grandchild, which held the pipe too, is gone.
    var byte: UInt8 = 0
    #expect(read(child.outputDescriptor, &byte, 1) == 0)
    child.closePipes()
  }

  @Test("A child gets its death signal when the thread that spawned it ends")
  func deathSignal() throws {
    final class Box: @unchecked Sendable { var child: ChildProcess? }  // read after the join
    let box = Box()
    var thread = pthread_t()
    let pointer = Unmanaged.passRetained(box).toOpaque()
    pthread_create(
      &thread, nil,
      { pointer in
        let box = Unmanaged<Box>.fromOpaque(pointer!).takeRetainedValue()
        box.child = try? ChildProcess.spawn(
          ChildCommand(path: "/bin/sleep", arguments: ["60"], deathSignal: .terminate))
        return nil
      }, pointer)
    pthread_join(thread, nil)
    var child = try #require(box.child)
    #expect(child.wait() == .signalled(number: SIGTERM))
    child.closePipes()
  }

  @Test("A blocked signal is read from a descriptor")
  func signalDescriptor() throws {
    let signals = try SignalDescriptor([Signal(number: SIGUSR1)])
    #expect(signals.next() == nil)
    pthread_kill(pthread_self(), SIGUSR1)
    #expect(signals.next() == Signal(number: SIGUSR1))
    #expect(signals.next() == nil)
  }

  @Test("Output is written line by line to the log until both pipes have ended")
  func capture() throws {
    let directory = try TemporaryDirectory()
    let capture = OutputCapture(writer: LogWriter(path: directory.path + "/node.log"))
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", "for i in 1 2 3 4 5 6; do echo $i; done; printf x >&2"]))
    for (descriptor, stream) in [
      (child.outputDescriptor, LogStream.out), (child.errorDescriptor, .err),
    ] {
      var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      repeat { poll(&item, 1, 300_000) } while capture.drain(descriptor, as: stream).isOpen
    }
    #expect(child.wait() == .exited(code: 0))
    child.closePipes()
    #expect(capture.recentLines == ["3", "4", "5", "6", "x"])
    var reader = LogReader(directory: directory.path)
    #expect(reader.next().map { "\($0.stream) \($0.text)" }.last == "err x")
  }

  @Test("Output lines of embedded nodes are recognized by their prefix")
  func captureOfLodgers() throws {
    let directory = try TemporaryDirectory()
    let capture = OutputCapture(writer: LogWriter(path: directory.path + "/motor.log"))
    capture.trackEmbeddedNode("lift")
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", "printf 'one\\n[lift] two\\n[door] three\\n[lift] '"]))
    var lines: [String] = []
    var ofLift: [String] = []
    var item = pollfd(fd: child.outputDescriptor, events: Int16(POLLIN), revents: 0)
    while true {
      poll(&item, 1, 300_000)
      let drained = capture.drain(child.outputDescriptor, as: .out)
      lines += drained.lines
      ofLift += drained.embeddedLines["lift"] ?? []
      if !drained.isOpen { break }
    }
    #expect(child.wait() == .exited(code: 0))
    child.closePipes()
    #expect(lines == ["one", "[door] three"])
    #expect(ofLift == ["two", ""])
    #expect(capture.recentLines == lines)
    #expect(capture.recentLines(ofEmbeddedNode: "lift") == ofLift)
    var reader = LogReader(directory: directory.path)
    #expect(reader.next().map(\.text) == lines)
  }

  @Test("A child's output can go to a file without keeping pipes open")
  func outputToFile() throws {
    let directory = try TemporaryDirectory()
    let file = open(directory.path + "/out", O_RDWR | O_CREAT, 0o600)
    defer { close(file) }
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/sh", arguments: ["-c", "echo out; echo err >&2"], output: .descriptor(file)))
    child.wait()
    lseek(file, 0, SEEK_SET)
    #expect(try FileSystem.read(file) == Array("out\nerr\n".utf8))
    #expect(child.outputDescriptor == -1 && child.errorDescriptor == -1)
  }

  @Test(
    "A signal is parsed by name, with or without SIG, or by number",
    arguments: [
      ("KILL", 9), ("sigterm", 15), ("Stop", SIGSTOP), ("9", 9), ("64", 64), ("65", nil),
      ("0", nil), ("NOPE", nil), ("", nil),
    ] as [(String, Int32?)])
  func signalNames(text: String, number: Int32?) {
    #expect(Signal(text)?.number == number)
  }
}
