import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeInspector
import TestTraits
import Testing

@Suite("A web server's socket file", .timed, .stallLimit(.seconds(60)))
struct SocketFileTests {
  /// Calls back with a path at which a socket can be created.
  private static func placing(_ body: (String) async throws -> Void) async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    try await body(directory.path + "/page.socket")
  }

  private static func server(_ path: String) throws -> WebServer {
    try WebServer(WebListener(socket: path)) { _ in WebResponse(200, "here") }
  }

  /// Leaves a socket behind, as a killed process does. No process listens to it.
  private static func forsake(_ path: String) throws {
    // The end of a server removes the file, and the end of a listener does not.
    _ = try WebListener(socket: path)
    #expect(FileSystem.exists(path))
  }

  @Test("A socket file is private from the start, accepts clients, and is removed with its server")
  func serves() async throws {
    try await Self.placing { path throws in
      let server = try Self.server(path)
      var status = stat()
      #expect(lstat(path, &status) == 0 && status.st_mode == S_IFSOCK | 0o600)
      #expect(try await WebClient(socket: path).get("/").body == "here\n")
      server.stop()
      #expect(!FileSystem.exists(path))
    }
  }

  @Test("A server replaces a socket that no process listens to, and no other file")
  func replaces() async throws {
    try await Self.placing { path throws in
      try Self.forsake(path)
      let server = try Self.server(path)
      #expect(throws: WebListenerError.pathInUse(path)) { _ = try WebListener(socket: path) }
      #expect(try await WebClient(socket: path).get("/").status == 200)
      // A server whose socket was replaced manually does not remove the new socket.
      unlink(path)
      let next = try Self.server(path)
      server.stop()
      #expect(try await WebClient(socket: path).get("/").status == 200)
      next.stop()
      let file = open(path, O_CREAT | O_WRONLY, 0o600)
      close(file)
      #expect(throws: WebListenerError.notASocket(path)) { _ = try WebListener(socket: path) }
      #expect(FileSystem.exists(path))
    }
  }

  @Test("Of several servers that start at once, exactly one gets the socket")
  func race() async throws {
    try await Self.placing { path throws in
      try Self.forsake(path)
      let servers = await withTaskGroup(of: WebServer?.self) { group in
        for _ in 0..<8 { group.addTask { try? Self.server(path) } }
        return await group.reduce(into: []) { servers, server in
          servers += server.map { [$0] } ?? []
        }
      }
      #expect(servers.count == 1)
      #expect(try await WebClient(socket: path).get("/").status == 200)
      for server in servers { server.stop() }
    }
  }

  @Test("A socket that cannot be created is refused with the reason")
  func refused() async throws {
    try await Self.placing { path throws in
      let folder = FileSystem.parentDirectory(of: path)
      let long = folder + "/" + String(repeating: "a", count: 107 - folder.utf8.count)
      #expect(throws: WebListenerError.pathTooLong(long, limit: 107)) {
        _ = try WebListener(socket: long)
      }
      let fits = String(long.dropLast())
      #expect(fits.utf8.count == 107)
      try Self.server(fits).stop()
      #expect(throws: WebListenerError.noSuchDirectory(folder + "/none")) {
        _ = try WebListener(socket: folder + "/none/page.socket")
      }
      #expect("\(WebListenerError.pathTooLong(long, limit: 107))".contains("108 bytes"))
    }
  }

  @Test(
    "A socket is refused if other users can replace it in its folder",
    arguments: [
      (0o700, true), (0o755, true), (0o770, false), (0o707, false), (0o777, false), (0o1777, true),
    ])
  func folderOfOthers(_ mode: mode_t, _ isTaken: Bool) async throws {
    try await Self.placing { path throws in
      let folder = FileSystem.parentDirectory(of: path)
      #expect(chmod(folder, mode) == 0)
      if isTaken {
        try Self.server(path).stop()
      } else {
        #expect(throws: WebListenerError.directoryWritableByOthers(folder)) {
          _ = try WebListener(socket: path)
        }
        #expect(!FileSystem.exists(path))
      }
    }
  }

  @Test("A socket in another user's folder is refused", .enabled(if: geteuid() == 0))
  func directoryOwnedByOtherUser() async throws {
    try await Self.placing { path throws in
      let folder = FileSystem.parentDirectory(of: path)
      #expect(chown(folder, 65_534, 65_534) == 0)
      #expect(throws: WebListenerError.directoryOwnedByOtherUser(folder, owner: 65_534)) {
        _ = try WebListener(socket: path)
      }
    }
  }
}
