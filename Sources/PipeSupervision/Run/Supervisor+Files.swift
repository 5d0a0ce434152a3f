import PipeClient
import PipeLogs
import PipeTransport
import PipeWire

/// What clients of other hosts want to read of the files here.
extension Supervisor {
  /// Answers with lines of logs.
  func readLogs(_ request: LogRequest, for asker: Asker) {
    let directory = directories.logs
    let topology = plan.topology
    answer(asker) {
      let known = LogReader.nodes(in: directory)
      if let unknown = request.nodes?.first(where: { !known.contains($0) }) {
        return .failed(LogReader.unknown(unknown, of: topology, known: known))
      }
      return .logs(LogPager(directory: directory).page(request))
    }
  }

  /// Answers with letters of a node's journal.
  func readLetters(of node: String, after id: UInt64, for asker: Asker) {
    guard let journal = directory().nodes.first(where: { $0.name == node })?.journal else {
      return control.answer(
        .failed("there is no node '\(node)' that keeps a journal"), to: asker)
    }
    answer(asker) {
      do {
        return .letters(try LetterPage(of: node, journal: journal, after: id))
      } catch {
        return .failed("\(error)")
      }
    }
  }

  /// Reads files beside the loop, which goes on meanwhile.
  private func answer(_ asker: Asker, with read: @escaping @Sendable () -> ControlAnswer) {
    let owner = LoopOwned((supervisor: self, asker: asker))
    let handle = loop.handle
    loader.handle.post {
      let answer = read()
      handle.post { owner.value.supervisor.control.answer(answer, to: owner.value.asker) }
    }
  }
}
