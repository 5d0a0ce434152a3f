import PipeMachines
import PipeTopology
import PipeWire
import Testing

@Suite("YAML text")
struct TopologyYAMLTests {
  @Test(
    "Plain scalars are resolved as in YAML 1.2, and quoted scalars are text",
    arguments: [
      ("~", .null), ("null", .null), ("", .null), ("true", .bool(true)), ("FALSE", .bool(false)),
      ("yes", "yes"), ("on", "on"), ("off", "off"), ("n", "n"), ("12", 12), ("-7", -7), ("+7", 7),
      ("010", 10), ("0o10", 8), ("0x1F", 31), ("0x-1", "0x-1"), ("1_000", "1_000"),
      ("1.5", .number(1.5)), ("1e3", .number(1000)), (".5", .number(0.5)), ("1.", .number(1)),
      (".", "."), ("-", "-"), ("1e", "1e"), ("1.2.3", "1.2.3"), ("60s", "60s"), ("12:30", "12:30"),
      ("99999999999999999999", .number(1e20)),
    ] as [(String, JSONValue)])
  func scalar(text: String, value: JSONValue) {
    #expect(YAMLScalar(text: text, isPlain: true).value == value)
    #expect(YAMLScalar(text: text, isPlain: false).value == .string(text))
  }

  @Test("Every key and value has its location")
  func places() throws {
    let root = try #require(try YAMLDocument.parse(Array("a: 1\nü: { x: [y,\n   z] }\n".utf8)))
    guard case .mapping(let entries) = root.content else {
      Issue.record("no mapping")
      return
    }
    #expect(entries.map(\.keyPosition) == [.init(line: 1, column: 1), .init(line: 2, column: 1)])
    #expect(
      entries.map(\.value.position) == [.init(line: 1, column: 4), .init(line: 2, column: 4)])
    guard case .mapping(let inner) = entries[1].value.content,
      case .sequence(let list) = inner[0].value.content
    else {
      Issue.record("no list")
      return
    }
    #expect(list.map(\.position) == [.init(line: 2, column: 10), .init(line: 3, column: 4)])
  }

  @Test(
    "Text that is not YAML is refused at its location",
    arguments: [
      ("a: [1\nb: 2\n", "2:2"), ("a:\n\t- 1\n", "2:1"), ("a: *x\n", "1:4"), ("a: 'b\n", "2:1"),
      ("a: &x [*x]\n", "1:8"), ("a: 1\n---\nb: 2\n", "2:1"), ("? [a]\n: 1\n", "1:3"),
      ("a: !py 1\n", "1:4"), ("é: 1\n  b: 2\n", "2:4"), ("ab: \u{1}\n", "1:5"), ("@a: 1\n", "1:1"),
    ])
  func refused(text: String, place: String) {
    let found = errors(text)
    #expect(found.count == 1)
    #expect(found.first?.hasPrefix("test.yaml:\(place): error: ") == true, "\(found)")
    #expect(found.first?.hasSuffix("[not-yaml]") == true, "\(found)")
  }

  @Test("A tab in an indentation causes an error that names the tab")
  func tab() {
    #expect(
      errors("é: 1\nb:\n\t- 1\n") == [
        "test.yaml:3:1: error: invalid YAML: tabs cannot indent a line; use spaces [not-yaml]"
      ])
  }

  @Test("Bytes that are not UTF-8 are refused at the first such byte")
  func invalidUTF8() {
    for bytes in [[0xFF], [0xC3], [0xC3, 0x28], [0xED, 0xA0, 0x80]] as [[UInt8]] {
      let text = Array("a: 1\né: ".utf8) + bytes
      #expect {
        try TopologyReader.read(text: text, file: "f")
      } throws: {
        "\($0)".hasPrefix("f:2:4: error: invalid UTF-8: byte \(bytes[0])")
      }
    }
  }

  @Test(
    "A byte-order mark is ignored and does not change locations",
    arguments: [
      "topology: t\nnodes: { a: { mashine: M } }\n", #"{"topology":"t","nodes":3}"#, "\u{1}",
    ])
  func byteOrderMark(text: String) {
    let plain = errors(text)
    #expect(!plain.isEmpty)
    #expect(errors("\u{FEFF}" + text) == plain)
  }

  @Test("A file with a byte-order mark is read")
  func markedFile() throws {
    let text = withNodes("a: { machine: M }")
    #expect(try topology("\u{FEFF}" + text) == topology(text))
  }

  @Test("Aliases are replaced by their anchors' values, up to a limit of YAML nodes")
  func aliases() throws {
    let text = withNodes("a: &a { machine: M, required: true }\nb: *a")
    #expect(try topology(text).node("b")?.required == true)
    var bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in 1...9 {
      let copies = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ", ")
      bomb += "a\(level): &a\(level) [\(copies)]\n"
    }
    #expect(errors(bomb).first?.contains("has more than 100000 YAML nodes") == true)
  }

  @Test("YAML that is nested too deeply is refused")
  func depth() {
    let deep = String(repeating: "[", count: 200_000)
    #expect(errors(deep).first?.contains("more than 64 levels deep") == true)
  }

  @Test("JSON is read as YAML")
  func json() throws {
    let text =
      #"{"topology":"t","program":"p","nodes":{"a":{"machine":"M","parameters":{"s":"\u00e9\/\"","#
      + #""n":[1,-2.5,true,null]}}}}"#
    let parameters = try topology(text).node("a")?.parameters
    #expect(parameters == ["s": "é/\"", "n": [1, .number(-2.5), true, .null]])
  }
}
