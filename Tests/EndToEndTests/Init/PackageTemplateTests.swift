import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("Decisions that 'init' makes before it writes files", .timed)
struct PackageTemplateTests {
  @Test("The generated package equals the package in docs/GETTING-STARTED.md")
  func readme() throws {
    let template = PackageTemplate(
      name: try PackageName("crossing"), dependency: "../PipeRuntime")
    let files = Dictionary(uniqueKeysWithValues: template.files.map { ($0.path, $0.text) })
    let shown = try Document(Document.gettingStarted).files
    #expect(shown.count == 4)
    for file in shown { #expect(files[file.path] == file.text, "\(file.path)") }
  }

  @Test("Two generated packages differ only in the package name")
  func names() throws {
    let one = PackageTemplate(name: try PackageName("crossing"), dependency: "..").files
    let other = PackageTemplate(name: try PackageName("my-nodes"), dependency: "..").files
    #expect(
      one.map {
        PackageFile(
          path: $0.path.replacing("crossing", with: "my-nodes"),
          text: $0.text.replacing("crossing", with: "my-nodes"))
      } == other)
  }

  @Test("The path of PipeRuntime is a valid Swift string literal, whatever characters it has")
  func literal() throws {
    let template = PackageTemplate(name: try PackageName("a"), dependency: "/a \"b\"\\(c)\n")
    let manifest = try #require(template.files.first { $0.path == "Package.swift" })
    #expect(manifest.text.contains(#"path: "/a \"b\"\\(c)\u{a}")"#))
    #expect(PackageManifest(text: manifest.text).name == "a")
  }

  @Test(
    "A package refers to a nearby checkout by a relative path, and otherwise by an absolute path",
    arguments: [
      ("/home/me/PipeRuntime", "/home/me/crossing", "../PipeRuntime"),
      ("/home/me/PipeRuntime", "/home/me/work/crossing", "../../PipeRuntime"),
      ("/home/me/PipeRuntime", "/home/me/PipeRuntime/crossing", ".."),
      ("/home/me/PipeRuntime", "/home/me/PipeRuntime2", "../PipeRuntime"),
      ("/w/PipeRuntime", "/w/a/b/c", "../../../PipeRuntime"),
      ("/w/PipeRuntime", "/w/a/b/c/d", "/w/PipeRuntime"),
      ("/opt/PipeRuntime", "/home/crossing", "/opt/PipeRuntime"),
      ("/w/a", "/w/a", "."),
    ])
  func near(target: String, folder: String, path: String) {
    #expect(RelativePath.path(to: target, from: folder) == path)
  }

  @Test(
    "The suggested commands call the orchestrator by name if it is in PATH, and by path otherwise",
    arguments: [
      ("orchestrator", ["/usr/bin", "x"], "orchestrator"),
      ("orchestrator", [".build/release", "/usr/bin"], "../.build/x/release/orchestrator"),
      ("orchestrator", [], "../.build/x/release/orchestrator"),
      (".build/release/orchestrator", ["/usr/bin"], "../.build/release/orchestrator"),
      ("./.build/release/orchestrator", [], "../.build/release/orchestrator"),
      ("../w/.build/release/orchestrator", [], "../.build/x/release/orchestrator"),
      ("/opt/bin/orchestrator", [], "/opt/bin/orchestrator"),
    ] as [(String, [String], String)])
  func call(commandName: String, searchPath: [String], commandText: String) {
    let call = OrchestratorInvocation(
      commandName: commandName, executable: "/w/.build/x/release/orchestrator",
      workingDirectory: "/w")
    #expect(call.commandText(from: "/w/crossing", searchPath: searchPath) == commandText)
  }

  @Test("The suggested commands are quoted for a shell")
  func nextSteps() {
    let plain = NextSteps(folder: "a/b", topology: "b.yaml", orchestrator: "../orchestrator")
    #expect(plain.lines[1] == "  cd a/b")
    #expect(plain.lines[3] == "  ../orchestrator run b.yaml")
    let odd = NextSteps(folder: "it's here/b", topology: "b.yaml", orchestrator: "../x y/z")
    #expect(odd.lines[1] == #"  cd 'it'\''s here/b'"#)
    #expect(odd.lines[3] == "  '../x y/z' run b.yaml")
  }

  @Test(
    "The package name is read from the manifest Package.swift",
    arguments: [
      ("let package = Package(\n  name: \"PipeRuntime\",\n  targets: []\n)", "PipeRuntime"),
      (
        "let package = Package(name: \"other\", products: [.library(name: \"PipeRuntime\")", "other"
      ),
      ("import PackageDescription", nil), ("", nil),
    ] as [(String, String?)])
  func manifest(text: String, name: String?) {
    #expect(PackageManifest(text: text).name == name)
  }
}
