import PipeClient
import PipeTopology
import PipeWire

/// Checks that the sockets of a topology's processes can have the paths that their names give them here.
package enum SocketPathChecker {
  /// - Parameters:
  ///   - classes: The names of the processes that coordinate composites.
  ///   - roots: Where sockets are, which the environment decides.
  package static func check(
    _ topology: Topology, source: SourceMap, classes: [String] = [],
    roots: RuntimeRoots = RuntimeRoots()
  ) -> [Diagnostic] {
    let processes =
      topology.nodes.map { ("node", "nodes", $0.name) }
      + classes.map { ("composite", "composites", $0) }
      + topology.monitors.map { ("monitor", "monitors", $0.name) }
    do throws(DirectoryError) {
      let directories = try RuntimeDirectories(topology: topology.name, roots: roots)
      _ = try directories.endpoint(.control)
      return processes.compactMap { kind, section, name in
        do throws(DirectoryError) {
          _ = try directories.endpoint(.feed(node: name))
          return nil
        } catch {
          let mark = source.mark(ofKey: [section, name])
          return source.diagnostic(.badName, at: mark, "\(kind) '\(name)': \(error)")
        }
      }
    } catch {
      return [
        source.diagnostic(
          .badName, at: source.mark(of: ["topology"]), "topology '\(topology.name)': \(error)")
      ]
    }
  }
}
