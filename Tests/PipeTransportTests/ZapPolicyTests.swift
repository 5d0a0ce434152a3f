import PipeTransport
import Testing

@Suite("The admission of peers from other hosts")
struct ZapPolicyTests {
  private let key = try! CurveKeyPair.make().publicKey
  private let other = try! CurveKeyPair.make().publicKey

  /// A change to a key's admission, made before the policy is asked for its verdict on the key.
  enum Step: CaseIterable { case allow, revoke }

  @Test(
    "A key is admitted from its approval until its revocation, and never afterwards",
    arguments: [
      ([], ZapPolicy.Verdict.unknown),
      ([.allow], .member(1)),
      ([.allow, .allow], .member(1)),
      ([.revoke], .revoked),
      ([.allow, .revoke], .revoked),
      ([.revoke, .allow], .revoked),
      ([.allow, .revoke, .allow], .revoked),
    ] as [([Step], ZapPolicy.Verdict)])
  func verdicts(steps: [Step], verdict: ZapPolicy.Verdict) {
    var policy = ZapPolicy()
    for step in steps {
      switch step {
      case .allow: policy.allow(key, as: .clientNames)
      case .revoke: _ = policy.revoke(key)
      }
    }
    #expect(policy.verdict(on: key) == verdict)
    #expect(policy.verdict(on: other) == .unknown)
  }

  @Test(
    "A member can use its own names, and a client can use any name that has no owner",
    arguments: [
      (
        ZapPolicy.AllowedRoutingIDs.only("pipe/a", "sync/b"), "pipe/a", ZapPolicy.Admission.admitted
      ),
      (.only("pipe/a", "sync/b"), "sync/b", .admitted),
      (.only("pipe/a"), "pipe/b", .foreignName),
      (.only("pipe/a"), "", .foreignName),
      (.only("pipe/a"), "\u{0}1234", .foreignName),
      (.only(), "pipe/a", .foreignName),
      (.clientNames, "\u{0}1234", .admitted),
      (.clientNames, "anything", .admitted),
      (.clientNames, "pipe/a", .foreignName),
      (.clientNames, "sync/b", .foreignName),
      (.clientNames, "node/c", .foreignName),
    ])
  func names(_ names: ZapPolicy.AllowedRoutingIDs, _ name: String, _ admission: ZapPolicy.Admission)
    throws
  {
    var policy = ZapPolicy()
    policy.allow(key, as: names)
    #expect(policy.admission(of: 1, as: Array(name.utf8)) == admission)
    // A socket without names checks the key alone.
    #expect(policy.admission(of: 1, as: nil) == .admitted)
    #expect(policy.admission(of: 2, as: nil) == .revoked)
    #expect(policy.revoke(key) == 1)
    #expect(policy.admission(of: 1, as: Array(name.utf8)) == .revoked)
    #expect(policy.admission(of: 1, as: nil) == .revoked)
  }

  @Test("New names of a key replace its former names")
  func otherNames() {
    var policy = ZapPolicy()
    policy.allow(key, as: .only("pipe/a"))
    policy.allow(key, as: .only("pipe/b"))
    #expect(policy.admission(of: 1, as: Array("pipe/a".utf8)) == .foreignName)
    #expect(policy.admission(of: 1, as: Array("pipe/b".utf8)) == .admitted)
    #expect(policy.key(of: 1) == key)
  }

  @Test("The last 1024 revoked keys are remembered, and older revoked keys are still rejected")
  func bound() throws {
    var policy = ZapPolicy()
    _ = policy.revoke(key)
    for number in 0..<ZapPolicy.maximumRevokedKeyCount {
      let bytes = withUnsafeBytes(of: number) { Array($0) } + [UInt8](repeating: 7, count: 24)
      _ = policy.revoke(try #require(PublicKey(bytes: bytes)))
    }
    #expect(policy.verdict(on: key) == .unknown)
  }

  @Test("A ZAP request of libzmq is read, and answered with 200, 300 or 400")
  func messages() throws {
    let bytes = [UInt8](1...32)
    func parts(_ mechanism: String, _ rest: [[UInt8]], version: String = "1.0") -> [[UInt8]] {
      [version, "1", "door", "10.0.0.3", "", mechanism].map { Array($0.utf8) } + rest
    }
    let request = try #require(ZapRequest(parts("CURVE", [bytes])))
    #expect(request.domain == "door" && request.address == "10.0.0.3")
    #expect(request.key == PublicKey(bytes: bytes) && request.key != nil)
    #expect(ZapRequest(parts("NULL", []))?.key == nil)
    #expect(ZapRequest(parts("PLAIN", [Array("me".utf8), Array("secret".utf8)]))?.key == nil)
    #expect(ZapRequest(parts("CURVE", [[1, 2, 3]]))?.key == nil)
    #expect(ZapRequest(parts("CURVE", [bytes], version: "2.0")) == nil)
    #expect(ZapRequest([]) == nil)
    func reply(_ verdict: ZapPolicy.Verdict) -> [String] {
      request.reply(verdict, connection: 5).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(reply(.member(3)) == ["1.0", "1", "200", "OK", "3.5", ""])
    #expect(reply(.unknown) == ["1.0", "1", "300", "not known yet", "", ""])
    #expect(reply(.revoked) == ["1.0", "1", "400", "revoked", "", ""])
    #expect(ConnectionTag("3.5") == ConnectionTag(member: 3, connection: 5))
    for text in ["", "3", "3.5.7", "-3.5", "3.x"] { #expect(ConnectionTag(text) == nil) }
  }
}
