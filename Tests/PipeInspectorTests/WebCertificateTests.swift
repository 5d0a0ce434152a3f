import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeInspector
import TestTraits
import Testing

@Suite("The TLS certificate of a web server", .timed, .stallLimit(.seconds(60)))
struct WebCertificateTests {
  /// Calls back with the paths of both files.
  private static func writing(
    _ certificate: String = TestCertificate.certificate, _ key: String = TestCertificate.key,
    mode: mode_t = 0o600, _ body: (String, String) async throws -> Void
  ) async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    try await body(
      directory.write(certificate, to: "page.pem", mode: 0o644),
      directory.write(key, to: "page.key", mode: mode))
  }

  private static func error(_ certificate: String, _ key: String) -> WebCertificateError? {
    do {
      let certificate = try WebCertificate(certificate: certificate, key: key)
      let listener = try WebListener(address: "127.0.0.1", port: 0)
      // An errno of an earlier call on this thread must not affect the start of this server.
      errno = EMFILE
      try WebServer(listener, certificate: certificate) { _ in WebResponse(200) }.stop()
      return nil
    } catch {
      return error as? WebCertificateError
    }
  }

  @Test("A server with a certificate answers nothing to a client without TLS")
  func plain() async throws {
    try await Self.writing { certificate, key throws in
      let listener = try WebListener(address: "127.0.0.1", port: 0)
      let client = WebClient(port: listener.port)
      let server = try WebServer(
        listener, certificate: WebCertificate(certificate: certificate, key: key)
      ) { _ in WebResponse(200, "secret") }
      let answer = try await client.get("/")
      #expect(answer.status == 0 && !answer.head.contains("secret"))
      server.stop()
    }
  }

  @Test(
    "A key file that other users can read is refused", arguments: [0o640, 0o604, 0o660] as [mode_t])
  func mode(_ mode: mode_t) async throws {
    try await Self.writing(mode: mode) { certificate, key throws in
      #expect(Self.error(certificate, key) == .keyReadableByOthers(key, mode: mode))
      #expect(
        "\(WebCertificateError.keyReadableByOthers(key, mode: mode))".contains("chmod 600 \(key)"))
    }
  }

  @Test("A key that does not belong to the certificate is refused")
  func pair() async throws {
    try await Self.writing(TestCertificate.certificate, TestCertificate.otherKey) {
      one, other throws in
      #expect(Self.error(one, other) == .mismatchedKey(certificate: one, key: other))
    }
  }

  @Test("A file without a certificate or without a key is refused")
  func files() async throws {
    try await Self.writing { certificate, key throws in
      #expect(Self.error(key, key) == .noCertificate(key))
      chmod(certificate, 0o600)
      #expect(Self.error(certificate, certificate) == .noKey(certificate))
      let folder = FileSystem.parentDirectory(of: key)
      #expect(Self.error(folder, key) == .notARegularFile(folder))
      let missing = key + ".none"
      let unreadable = SystemError("open", on: missing, code: ENOENT)
      #expect(Self.error(certificate, missing) == .unreadable(unreadable))
    }
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----"
    try await Self.writing(TestCertificate.certificate, locked) { certificate, key throws in
      #expect(Self.error(certificate, key) == .encrypted(key))
    }
    let damaged = TestCertificate.certificate.replacing("MIIB", with: "MIIC")
    try await Self.writing(damaged) { certificate, key throws in
      #expect(Self.error(certificate, key) == .mismatchedKey(certificate: certificate, key: key))
    }
  }
}
