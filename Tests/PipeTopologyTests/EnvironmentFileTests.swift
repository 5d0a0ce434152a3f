import Glibc
import PipeTopology
import PipeWire
import TestSupport
import Testing

@Suite("The variable file beside a topology file")
struct EnvironmentFileTests {
  /// Returns the value of `V` for a file `.env` with these bytes, and the errors.
  private func read(
    _ bytes: [UInt8], environment: [String: String] = [:], text: String? = nil
  ) throws -> (value: String?, errors: [String]) {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/.env"
    let file = try #require(fopen(path, "w"))
    #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    fclose(file)
    let text = text ?? withNodes("a: { machine: M, environment: { V: \"${V}\" } }")
    let found = read(text, TopologyVariables(file: path, environment: environment))
    return (found.value, found.errors.map { $0.replacing(folder.path + "/", with: "") })
  }

  private func read(
    _ text: String, _ variables: TopologyVariables
  ) -> (value: String?, errors: [String]) {
    do {
      let found = try TopologyReader.read(
        text: text.utf8, file: "test.yaml", variables: variables)
      return (found.topology.nodes[0].environment["V"], [])
    } catch {
      return (nil, error.diagnostics.map(\.description))
    }
  }

  @Test(
    "A line of a variable file sets one variable",
    arguments: [
      ("V=x", "x"), (" V = x y ", "x y"), ("export V=x", "x"), ("V=", ""), ("V=a=b", "a=b"),
      ("V=x # comment", "x"), ("V=x#y", "x#y"), ("V= # comment", ""), ("V=#x", "#x"),
      ("V='a # $b \\n'", "a # $b \\n"), (#"V="a # \"b\"\n\$c\\" # d"#, "a # \"b\"\n$c\\"),
      ("# V=1\n\nV=x\r\nW=y\n", "x"), ("V=1\nV=2", "2"), ("\u{FEFF}V=x", "x"), ("V=5$", "5$"),
      ("V=é", "é"),
    ])
  func line(text: String, value: String) throws {
    let found = try read(Array(text.utf8))
    #expect(found.value == value, "\(found)")
  }

  @Test(
    "A line that cannot be read causes an error, and its variable is not reported as missing",
    arguments: [
      ("V", "1:1", "this line has no '='"), ("\n1=x", "2:1", "'1' is not a valid variable name"),
      ("a b=x", "1:1", "'a b' is not a valid variable name"), ("V='x", "1:1", "unterminated quote"),
      (#"V="x\""#, "1:1", "unterminated quote"),
      ("V='x' y", "1:1", "unexpected text after the closing quote"),
      ("V=${W}", "1:1", "variables are not expanded in this file"),
      ("V=$W", "1:1", "variables are not expanded in this file"),
      (#"V="a$W""#, "1:1", "write the value itself, in '…' if the value contains '$'"),
    ])
  func bad(text: String, place: String, message: String) throws {
    let found = try read(Array(text.utf8)).errors
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix(".env:\(place): error: ") == true, "\(found)")
    #expect(found.first?.contains(message) == true, "\(found)")
  }

  @Test("A file that is not UTF-8 causes an error at the line")
  func invalid() throws {
    #expect(
      try read([0x56, 0x3D, 0x0A, 0xFF]).errors == [
        ".env:2:1: error: this line is not UTF-8; save the file as UTF-8 [bad-variable]"
      ])
  }

  @Test("The environment's variables, even empty ones, override the variables of the file")
  func precedence() throws {
    #expect(try read(Array("V=file".utf8), environment: ["V": "own"]).value == "own")
    #expect(try read(Array("V=file".utf8), environment: ["V": ""]).value == "")
    #expect(try read(Array("V=file".utf8), environment: ["W": "own"]).value == "file")
  }

  @Test("The variable file is not read if the topology has no variables")
  func unneeded() throws {
    let text = withNodes("a: { machine: M, environment: { V: x$$ } }")
    #expect(try read([0xFF], text: text).value == "x$")
  }

  @Test("The variable file is beside the topology file and is optional")
  func place() throws {
    let folder = try TemporaryDirectory()
    func write(_ text: String, to name: String) throws {
      let file = try #require(fopen(folder.path + "/" + name, "w"))
      #expect(fputs(text, file) >= 0)
      fclose(file)
    }
    try write(withNodes("a: { machine: \"${PR_TEST_MACHINE:-M}\" }"), to: "t.yaml")
    func machine() throws -> String? {
      try TopologyReader.read(path: folder.path + "/t.yaml").topology.nodes[0].machine
    }
    #expect(try machine() == "M")
    try write("PR_TEST_MACHINE=N\n", to: ".env")
    #expect(try machine() == "N")
    // A directory with that name is ignored.
    unlink(folder.path + "/.env")
    mkdir(folder.path + "/.env", 0o700)
    #expect(try machine() == "M")
  }
}
