import Glibc
import PipeRuntime

/// A document of this package: its shell commands, and the files that it shows.
struct Document {
  /// The documents with shell commands that are run unchanged.
  static let tours = ["README.md", "docs/COMMANDS.md", "docs/CLIENTS.md"]
  /// The document with the package that `init` writes.
  static let gettingStarted = "docs/GETTING-STARTED.md"

  /// A fenced block: its language, its lines, and the file that the line before it names.
  struct Block {
    var language: String
    var file: String?
    var text: String
  }

  let blocks: [Block]
  /// The commands of the table of screens.
  let viewCommands: [String]

  /// - Parameter file: Its path in the package.
  init(_ file: String) throws {
    let path = PackagePath.root + "/" + file
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    let text = String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
    var blocks: [Block] = []
    var current: Block?
    var lastLine = ""
    for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      if line.hasPrefix("```") {
        if let block = current {
          blocks.append(block)
          current = nil
        } else {
          current = Block(
            language: String(line.dropFirst(3)), file: Self.fileName(lastLine), text: "")
        }
      } else if current != nil {
        current?.text += line + "\n"
      }
      if !line.isEmpty { lastLine = line }
    }
    self.blocks = blocks
    viewCommands = text.split(separator: "\n").compactMap { line in
      let cells = line.split(separator: "`")
      return line.hasPrefix("| ") && cells.count > 1 && cells[1].hasPrefix("nodes view ")
        ? String(cells[1]) : nil
    }
  }

  /// The lines of the shell blocks, except for blocks that write a package.
  var commands: [String] { lines(of: shellBlocks.filter { !Self.isOfPackage($0) }) }

  /// The lines of the blocks that write a package and work in it.
  var packageCommands: [String] { lines(of: shellBlocks.filter(Self.isOfPackage)) }

  /// The files of the package.
  var files: [(path: String, text: String)] {
    blocks.compactMap { block in block.file.map { ($0, block.text) } }
  }

  private var shellBlocks: [Block] { blocks.filter { $0.language == "sh" } }

  private static func isOfPackage(_ block: Block) -> Bool {
    block.text.hasPrefix("orchestrator init ")
  }

  private func lines(of blocks: [Block]) -> [String] {
    blocks.flatMap { $0.text.split(separator: "\n").map(String.init) }
  }

  /// Returns the name in a line like "`Package.swift`:".
  private static func fileName(_ line: String) -> String? {
    guard line.hasPrefix("`"), line.hasSuffix("`:") else { return nil }
    return String(line.dropFirst().dropLast(2))
  }
}
