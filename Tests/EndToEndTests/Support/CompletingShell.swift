import PipeRuntime

/// A shell other than bash, whose completion is tested if the shell is installed.
enum CompletingShell: String, CaseIterable {
  case zsh, fish

  var isInstalled: Bool { FileSystem.exists("/usr/bin/\(rawValue)") }

  /// Returns the words that the completion offers for the last word of a line, sorted.
  func complete(_ line: String, in command: Command) throws -> [String] {
    let script: String
    switch self {
    case .fish:
      script = """
        export HOME=$PWD LC_ALL=C.UTF-8
        fish --no-config -c 'orchestrator completion fish | source; complete -C $argv[1]' -- '\(line)' |
          cut -f 1 | sort -u
        """
    case .zsh:
      script = """
        mkdir -p .zsh && orchestrator completion zsh > .zsh/_orchestrator || exit
        export HOME=$PWD/.zsh TERM=dumb LC_ALL=C.UTF-8
        cat > .zsh/setup <<'END'
        \(Self.zshSetup)
        END
        cat > .zsh/ask <<'END'
        \(Self.zshDriver)
        END
        : > .zsh/offered
        zsh -f .zsh/ask '\(line)' > /dev/null && sort -u .zsh/offered
        """
    }
    let result = try command.run(shell: script)
    guard result.exit?.isSuccess == true, result.error.isEmpty else {
      throw UnexpectedResult("\(rawValue): \(result)")
    }
    return result.output.split(separator: "\n").map(String.init)
  }

  /// A script that types the line and a tab into a zsh on a terminal, and waits for the completion.
  private static let zshDriver = """
    zmodload zsh/zpty
    zpty -b shell zsh -f -i
    zpty -w shell "source .zsh/setup"
    zpty -r shell text '*__READY__*'
    zpty -w -n shell "$1"$'\\t'
    zpty -r shell text '*__OVER__*'
    zpty -d shell
    """

  /// The setup of the zsh that ``zshDriver`` starts. This zsh writes the offered words to a file.
  private static let zshSetup = """
    fpath=($PWD/.zsh $fpath)
    autoload -Uz compinit && compinit -u -D
    zstyle ':completion:*' insert-tab false
    compadd() {
      local -a offered
      # These ask for the words that fit, and add none.
      if [[ " $* " != *" -"[OAD]* ]]; then
        builtin compadd -O offered "$@"
        (( $#offered )) && print -rl -- $offered >> $HOME/offered
      fi
      builtin compadd "$@"
    }
    over() { print -r -- __OVER__ }
    comppostfuncs=(over)
    bindkey '^I' complete-word
    print -r -- __READY''__
    """
}
