import PipeSystem

/// Which running topology is meant, and where it runs.
package enum TopologyTarget: Sendable {
  /// The one of this name on this host; `nil` for the only one that runs.
  case local(String?)
  /// One whose orchestrator is reached over the network.
  case remote(RemoteTopology)

  /// The same; where none is named, the one of this name on this host.
  package func named(elseBy name: @autoclosure () throws -> String) rethrows -> TopologyTarget {
    if case .local(nil) = self { .local(try name()) } else { self }
  }

  /// Those of the one that runs on this host; `nil` on another one.
  /// - Throws: ``TopologyClientError`` where it does not run here.
  package var directories: RuntimeDirectories? {
    get throws {
      if case .local(let name) = self { try RunningTopology.choose(name) } else { nil }
    }
  }

  /// The one that runs on another host.
  package var remote: RemoteTopology? {
    if case .remote(let topology) = self { topology } else { nil }
  }
}

extension ParsedArguments {
  /// The running topology that is meant by `-p`, or by `--key` and `--connect`.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``, also where these do not fit each other.
  package var target: TopologyTarget {
    get throws(TopologyClientError) {
      guard let key = value(Option.key.long) else {
        guard let endpoint = value(Option.connect.long) else { return .local(topology) }
        throw .unusableKey(
          "--connect needs --key FILE, a copy of mode 600 of 'client.key' in the runtime directory of the topology, "
            + "on the host of the orchestrator at '\(endpoint)': $XDG_RUNTIME_DIR/piperuntime/NAME there"
        )
      }
      let remote = try RemoteTopology(key: key, at: value(Option.connect.long))
      if let topology, topology != remote.name {
        throw .unusableKey(
          "the key file '\(key)' is of topology '\(remote.name)', and -p names '\(topology)': leave -p out"
        )
      }
      return .remote(remote)
    }
  }
}
