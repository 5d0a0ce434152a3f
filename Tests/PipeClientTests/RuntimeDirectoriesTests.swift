import Glibc
import PipeClient
import PipeSystem
import TestSupport
import Testing

@Suite("Runtime directories")
struct RuntimeDirectoriesTests {
  @Test("PIPERUNTIME_ROOT takes precedence over XDG directories, which precede /tmp and home")
  func roots() throws {
    let user = geteuid()
    let own = try TemporaryDirectory()
    let root = RuntimeRoots(environment: ["PIPERUNTIME_ROOT": "/r", "XDG_RUNTIME_DIR": own.path])
    #expect(root.runtime == "/r/run" && root.state == "/r/state")
    let xdg = RuntimeRoots(
      environment: ["XDG_RUNTIME_DIR": own.path, "XDG_STATE_HOME": "/s", "HOME": "/h"])
    #expect(xdg.runtime == own.path + "/piperuntime" && xdg.state == "/s/piperuntime")
    let plain = RuntimeRoots(environment: ["HOME": "/h", "XDG_RUNTIME_DIR": "/nonexistent"])
    #expect(plain.runtime == "/tmp/piperuntime-\(user)")
    #expect(plain.state == "/h/.local/state/piperuntime")
    let foreign = RuntimeRoots(environment: ["XDG_RUNTIME_DIR": own.path], user: user + 1)
    #expect(foreign.runtime == "/tmp/piperuntime-\(user + 1)")
  }

  @Test("Sockets in /tmp are reported with the reason")
  func fallback() throws {
    let own = try TemporaryDirectory()
    func note(_ environment: [String: String], user: uid_t = geteuid()) -> String? {
      RuntimeRoots(environment: environment, user: user).fallbackNote
    }
    #expect(note(["XDG_RUNTIME_DIR": own.path]) == nil)
    #expect(note(["PIPERUNTIME_ROOT": "/r"]) == nil)
    let unset = try #require(note([:]))
    #expect(
      unset.hasPrefix(
        "XDG_RUNTIME_DIR is not set, so sockets are in '/tmp/piperuntime-\(geteuid())'; "))
    #expect(unset.contains("set XDG_RUNTIME_DIR or PIPERUNTIME_ROOT"))
    #expect(note(["XDG_RUNTIME_DIR": ""]) == unset)
    for foreign in [
      note(["XDG_RUNTIME_DIR": own.path], user: geteuid() + 1),
      note(["XDG_RUNTIME_DIR": own.path + "/none"]),
    ] {
      #expect(
        foreign?.contains("is not a directory that you own, so sockets are in '/tmp/") == true)
    }
  }

  @Test("The error for a directory that cannot be used names the directory's purpose")
  func unusable() throws {
    func failure(_ environment: [String: String]) throws -> DirectoryError {
      try #require(throws: DirectoryError.self) {
        try TopologyLock.acquire(
          RuntimeDirectories(topology: "lift", roots: RuntimeRoots(environment: environment)),
          file: nil)
      }
    }
    let own = try TemporaryDirectory()
    let file = own.path + "/file"
    close(open(file, O_CREAT | O_WRONLY, 0o600))
    let state = try failure(["XDG_RUNTIME_DIR": own.path, "XDG_STATE_HOME": file])
    let cause = SystemError("mkdir", on: file + "/piperuntime/lift", code: ENOTDIR)
    #expect(state == .unusable(.state, cause))
    #expect(
      state.description
        == "no directory for logs and journals: '\(file)/piperuntime/lift' cannot be made (Not "
        + "a directory); make it writable, or name another place with XDG_STATE_HOME or "
        + "PIPERUNTIME_ROOT")
    if geteuid() != 0 {
      let shut = own.path + "/shut"
      try FileSystem.makeDirectories(shut + "/piperuntime/lift", mode: 0o500)
      let failed = try failure(["XDG_RUNTIME_DIR": own.path, "XDG_STATE_HOME": shut])
      #expect(failed.description.contains("/lift' cannot be written to (Permission denied)"))
      chmod(shut + "/piperuntime/lift", 0o700)
    }
    let root = own.path + "/root"
    try FileSystem.makeDirectories(root + "/state")
    close(open(root + "/run", O_CREAT | O_WRONLY, 0o600))
    let runtime = try failure(["PIPERUNTIME_ROOT": root])
    #expect(runtime.description.contains("'\(root)/run'"), "\(runtime)")
  }

  @Test("Endpoints are short file names in the topology's directory")
  func endpoints() throws {
    let roots = RuntimeRoots(environment: ["PIPERUNTIME_ROOT": "/r"])
    let directories = try RuntimeDirectories(topology: "lift", roots: roots)
    #expect(try directories.endpoint(.control) == "ipc:///r/run/lift/control")
    #expect(try directories.endpoint(.inbox(node: "door")) == "ipc:///r/run/lift/door.in")
    #expect(try directories.endpoint(.feed(node: "door")) == "ipc:///r/run/lift/door.feed")
  }

  @Test("A socket path can have up to 107 bytes, and a longer path causes an error with a remedy")
  func pathLimit() throws {
    let fixed = "//run/t/control".utf8.count
    let name = String(repeating: "x", count: RuntimeDirectories.pathLimit - fixed)
    func endpoint(_ root: String) throws -> String {
      try RuntimeDirectories(
        topology: "t", roots: RuntimeRoots(environment: ["PIPERUNTIME_ROOT": "/" + root])
      ).endpoint(.control)
    }
    #expect(try endpoint(name).utf8.count == "ipc://".utf8.count + 107)
    let error = try #require(throws: DirectoryError.self) { try endpoint(name + "x") }
    #expect(error.description.contains("is 108 bytes long; the system's limit is 107"))
    #expect(error.description.contains("PIPERUNTIME_ROOT"))
  }

  @Test(
    "A name that cannot be a file name is refused",
    arguments: ["", ".", "..", ".hidden", "a/b", "a b", "é", String(repeating: "x", count: 65)])
  func unsafeNames(name: String) throws {
    #expect(throws: DirectoryError.unsafeName(name)) { try RuntimeDirectories(topology: name) }
    let directories = try RuntimeDirectories(topology: "t")
    #expect(throws: DirectoryError.unsafeName(name)) {
      try directories.endpoint(.inbox(node: name))
    }
  }

  @Test("A second run with the same name is refused with the pid until the first run ends")
  func exclusive() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    #expect(RunningTopology.all(in: root.roots).isEmpty)
    let lock = try TopologyLock.acquire(directories, file: "/etc/lift.yaml")
    let expected = DirectoryError.alreadyRunning(
      topology: "lift", pid: getpid(), file: "/etc/lift.yaml")
    #expect(throws: expected) { try TopologyLock.acquire(directories, file: nil) }
    #expect(expected.description.contains("pid \(getpid())"))
    let running = RunningTopology.all(in: root.roots)
    #expect(running.map(\.name) == ["lift"])
    #expect(running.first?.pid == getpid() && running.first?.startedAt != nil)
    lock.release()
    #expect(RunningTopology.all(in: root.roots).isEmpty)
    #expect(!FileSystem.isDirectory(directories.runtime))
    #expect(FileSystem.isDirectory(directories.logs))
    try TopologyLock.acquire(directories, file: nil).release()
  }

  @Test("A removed lock file is created again, but not while another process inspects the file")
  func removedLock() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    let lock = try TopologyLock.acquire(directories, file: nil)
    defer { lock.release() }
    close(open(directories.runtime + "/control", O_CREAT | O_WRONLY, 0o600))
    #expect(lock.keepInPlace() == .inPlace)
    #expect(unlink(directories.lockFile) == 0)
    // 'orchestrator ls' opens the lock like this.
    let looking = open(directories.lockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    #expect(flock(looking, LOCK_SH | LOCK_NB) == 0)
    #expect(lock.keepInPlace() == .beingChecked)
    close(looking)
    #expect(lock.keepInPlace() == .restored)
    #expect(RunningTopology.find(directories)?.pid == getpid())
    // Another run has the lock.
    #expect(unlink(directories.lockFile) == 0)
    let other = open(directories.lockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
    #expect(lock.keepInPlace() == .gone)
    close(other)
  }

  @Test("Files left by a killed orchestrator do not count as a run, and the next run removes them")
  func leftovers() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    var lock: TopologyLock? = try TopologyLock.acquire(directories, file: nil)
    let socket = directories.runtime + "/door.in"
    close(open(socket, O_CREAT | O_WRONLY, 0o600))
    #expect(lock != nil)
    lock = nil  // the kernel does the same to a killed process
    #expect(access(directories.lockFile, F_OK) == 0)
    #expect(RunningTopology.find(directories) == nil)
    let next = try TopologyLock.acquire(directories, file: nil)
    #expect(access(socket, F_OK) != 0)
    next.release()
  }

  @Test("The runtime directory is private to its user, and a link in its place is refused")
  func privacy() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    try FileSystem.makeDirectories(directories.runtime, mode: 0o755)
    let lock = try TopologyLock.acquire(directories, file: nil)
    var status = stat()
    #expect(stat(directories.runtime, &status) == 0 && status.st_mode & 0o777 == 0o700)
    lock.release()
    symlink("/tmp", directories.runtime)
    #expect(throws: DirectoryError.foreignOwner(path: directories.runtime, owner: nil)) {
      try TopologyLock.acquire(directories, file: nil)
    }
  }
}
