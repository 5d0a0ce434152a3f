import PipeClient
import PipeLogs
import PipeTransport
import PipeWire

/// The files here that others read: after the run, and from other hosts.
extension Supervisor {
  /// Writes down where journals are, for who reads them when this run is over.
  func tellJournals() {
    let paths = plan.nodes.compactMap { node in node.information.journal.map { (node.name, $0) } }
    do {
      try JournalPlaces.write(Dictionary(paths) { first, _ in first }, in: directories)
    } catch {
      reporter.warning("'orchestrator journal' will not find all journals: \(error)")
    }
  }

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
