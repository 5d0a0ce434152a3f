import FoundationEssentials
import PipeMachines
import Testing

/// Events of many shapes, to be encoded and decoded.
private enum Sample: MachineEvent, Equatable {
  struct Point: Codable, Equatable, Sendable {
    var x: Double
    var y: Float?
    var tags: [String: [Int]]
  }

  indirect enum Tree: Codable, Equatable, Sendable {
    case leaf
    case fork(Tree, Tree)
  }

  enum Unit: String, Codable, Sendable { case metre, second }

  case bare
  case one(Int)
  case numbers(small: Int8, large: UInt64, least: Int64, isSet: Bool)
  case text(String, other: String?)
  case point(Point)
  case points([Point], units: [Unit?])
  case tree(Tree)
  case data(Data, at: Date, from: URL)
  case map([Int: String])
  case empty([Int], [String: Int])
}

@Suite("Reading and writing events")
struct EventReaderTests {
  private static let samples: [Sample] = [
    .bare, .one(0), .one(-42), .one(.max), .one(.min),
    .numbers(small: -128, large: .max, least: .min, isSet: true),
    .text("", other: nil), .text("plain", other: "straße 🚪"),
    .text("\"quoted\" \\ and \n\r\t \u{1} \u{7F} / é", other: "\u{2028}"),
    .point(.init(x: 1.5, y: 0.1, tags: ["a": [1, 2], "b": []])),
    .point(.init(x: -3, y: nil, tags: [:])), .point(.init(x: 1e300, y: 1e-30, tags: [:])),
    .points([.init(x: 0, y: 1, tags: [:])], units: [.metre, nil, .second]),
    .tree(.fork(.leaf, .fork(.leaf, .leaf))),
    .data(
      Data([1, 2, 255]), at: Date(timeIntervalSinceReferenceDate: 1.25), from: URL(filePath: "/x")),
    .map([1: "one"]), .empty([], [:]),
    .map(Dictionary(uniqueKeysWithValues: (0..<200).map { ($0, "text \($0)") })),
    .point(
      .init(
        x: 1, y: 2, tags: Dictionary(uniqueKeysWithValues: (0..<500).map { ("é\($0)", [$0]) }))),
    .empty([], Dictionary(uniqueKeysWithValues: (0..<65).map { ("\"\($0)", $0) })),
  ]

  @Test("Foundation decodes the text that the codec encodes", arguments: samples)
  fileprivate func writes(_ sample: Sample) throws {
    let bytes = try EventCodec<Sample>().encode(sample)
    if sample != .bare {
      #expect(try JSONDecoder().decode(Sample.self, from: Data(bytes)) == sample)
    }
    #expect(try EventCodec<Sample>().decode(bytes) == sample)
  }

  @Test("If a key occurs twice in a large object, the first value counts, as in Foundation")
  func repeatedKeys() throws {
    let members = (0..<100).map { "\"key\($0)\":\($0)" } + ["\"key7\":1000"]
    let text = "{\"empty\":{\"_0\":[],\"_1\":{" + members.joined(separator: ",") + "}}}"
    let sample = try EventCodec<Sample>().decode(Array(text.utf8))
    #expect(sample == (try JSONDecoder().decode(Sample.self, from: Data(text.utf8))))
  }

  @Test("JSON values inside a record are read and written like other JSON values")
  func values() throws {
    struct Record: Codable, Equatable {
      var name: String
      var state: JSONValue?
      var others: [JSONValue]
    }
    let large = JSONValue.object(
      Dictionary(uniqueKeysWithValues: (0..<300).map { ("key\($0)", .integer(Int64($0))) }))
    for value in [large, .null, .number(1.5), .string("\"\n"), ["a": [1, true, JSONValue.null]]] {
      let record = Record(name: "x", state: value == .null ? nil : value, others: [value, large])
      let text = try JSONRecord.encode(record)
      #expect(try JSONRecord.decode(Record.self, from: text) == record)
      #expect(try JSONDecoder().decode(Record.self, from: Data(text)) == record)
    }
  }

  @Test("The codec decodes the text that Foundation encodes", arguments: samples)
  fileprivate func reads(_ sample: Sample) throws {
    let bytes = Array(try JSONEncoder().encode(sample))
    #expect(try EventCodec<Sample>().decode(bytes) == sample)
  }

  @Test(
    "The codec accepts and refuses the same texts as Foundation",
    arguments: [
      #" { "one" : { "_0" : 7 } } "#, #"{"one":{"_0":7.0}}"#, #"{"one":{"_0":7.5}}"#,
      #"{"one":{"_0":1e2}}"#, #"{"one":{"_0":99999999999999999999}}"#, #"{"one":{"_0":"7"}}"#,
      #"{"one":{"_0":007}}"#, #"{"one":{"_0":-}}"#, #"{"one":{"_0":7,}}"#, #"{"one":{"_0":7}"#,
      #"{"one":{"_0":7}} x"#, #"{"one":{"_0":7},"bare":{}}"#, #"{"one":{}}"#, #"{"none":{}}"#,
      #"{"one":{"_0":1,"_0":2}}"#, #"{"o\u006ee":{"_0":7}}"#,
      #"{"text":{"_0":"\u00e9\ud83d\ude00"}}"#,
      #"{"text":{"_0":"\ud83d"}}"#, "{\"text\":{\"_0\":\"a\nb\"}}", #"{"bare":{}}"#, "[]", "null",
      "",
      #"{"numbers":{"small":128,"large":1,"least":1,"isSet":true}}"#,
      #"{"text":{"_0":"a","other":null}}"#, #"{"empty":{"_0":[1, 2 ,3],"_1":{}}}"#,
    ])
  func agrees(_ text: String) throws {
    let expected = try? JSONDecoder().decode(Sample.self, from: Data(text.utf8))
    let seen = try? EventCodec<Sample>().decode(Array(text.utf8))
    #expect(seen == expected)
  }

  @Test("The codec decodes an object with many members, and a deep array")
  func large() throws {
    let map = Dictionary(uniqueKeysWithValues: (0..<200).map { ($0, String($0)) })
    let bytes = try EventCodec<Sample>().encode(.map(map))
    #expect(try EventCodec<Sample>().decode(bytes) == .map(map))
    var tree = Sample.Tree.leaf
    for _ in 0..<100 { tree = .fork(tree, .leaf) }
    let deep = try EventCodec<Sample>().encode(.tree(tree))
    #expect(try EventCodec<Sample>().decode(deep) == .tree(tree))
  }

  @Test("The codec refuses a value of the wrong type")
  func refusal() {
    #expect(throws: UndecodableValue.self) {
      try EventCodec<Sample>().decode(Array(#"{"one":{"_0":true}}"#.utf8))
    }
  }

  @Test("After an event that cannot be encoded, the codec encodes other events")
  func unwritable() throws {
    let codec = EventCodec<Sample>()
    var bytes: [UInt8] = [1]
    #expect(throws: EncodingError.self) {
      try codec.encode(.point(.init(x: .infinity, y: nil, tags: [:])), into: &bytes)
    }
    #expect(bytes == [1])
    #expect(try codec.encode(.one(1)) == Array(#"{"one":{"_0":1}}"#.utf8))
  }
}
