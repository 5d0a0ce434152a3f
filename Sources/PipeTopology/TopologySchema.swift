/// The JSON Schema of topology files, for editors; `orchestrator schema` prints it.
public enum TopologySchema {
  /// The text of `topologies/topology.schema.json`; a test holds the two to be equal.
  public static let text = #"""
    {
      "$schema": "https://json-schema.org/draft/2020-12/schema",
      "title": "Topology",
      "description": "Which state machines run as processes, and the pipes between them.",
      "type": "object",
      "required": ["topology", "nodes"],
      "additionalProperties": false,
      "patternProperties": { "^x-": true },
      "properties": {
        "topology": {
          "description": "The name by which the running topology is found.",
          "anyOf": [
            { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$" },
            { "$ref": "#/$defs/variable" }
          ]
        },
        "program": { "$ref": "#/$defs/program" },
        "environment": { "$ref": "#/$defs/environment" },
        "nodes": {
          "description": "The nodes by name: one process each.",
          "type": "object",
          "minProperties": 1,
          "propertyNames": { "$ref": "#/$defs/nodeName" },
          "additionalProperties": { "$ref": "#/$defs/node" }
        },
        "pipes": {
          "description": "The pipes that carry events between nodes.",
          "type": "array",
          "items": { "$ref": "#/$defs/pipe" }
        },
        "composites": {
          "description": "The composites by name: nodes that take synchronized events together.",
          "type": "object",
          "propertyNames": { "$ref": "#/$defs/nodeName" },
          "additionalProperties": { "$ref": "#/$defs/composite" }
        },
        "monitors": {
          "description": "The monitors that start with the topology: read-only processes.",
          "type": "object",
          "propertyNames": { "$ref": "#/$defs/nodeName" },
          "additionalProperties": { "$ref": "#/$defs/monitor" }
        },
        "timeouts": {
          "description": "How long the parts of a node's life may take.",
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "start": {
              "description": "From spawning a node to its being ready. Default: 10s.",
              "$ref": "#/$defs/positiveDuration"
            },
            "heartbeat": {
              "description": "The longest silence before a node counts as hung. Default: 5s.",
              "$ref": "#/$defs/positiveDuration"
            },
            "stop": {
              "description": "From asking a node to stop to killing it. Default: 5s.",
              "$ref": "#/$defs/positiveDuration"
            }
          }
        }
      },
      "$defs": {
        "variable": {
          "description": "A text with '${NAME}' or '${NAME:-default}', which is put in before it is read.",
          "type": "string",
          "pattern": "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"
        },
        "program": {
          "description": "An executable: beside the orchestrator, beside this file, or in PATH.",
          "type": "string",
          "minLength": 1
        },
        "nodeName": {
          "type": "string",
          "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$"
        },
        "environment": {
          "description": "Variables added to the environment of a process.",
          "type": "object",
          "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
          "additionalProperties": { "type": ["string", "number", "boolean"] }
        },
        "duration": {
          "description": "A length of time with units: 200ms, 1.5s, 1m30s, 2h.",
          "anyOf": [
            {
              "type": "string",
              "pattern": "^(?=[0-9])([0-9]{1,9}(\\.[0-9]{1,9})?d)?([0-9]{1,9}(\\.[0-9]{1,9})?h)?([0-9]{1,9}(\\.[0-9]{1,9})?m(in)?)?([0-9]{1,9}(\\.[0-9]{1,9})?s)?([0-9]{1,9}(\\.[0-9]{1,9})?ms)?([0-9]{1,9}(\\.[0-9]{1,9})?us)?([0-9]{1,9}(\\.[0-9]{1,9})?ns)?$"
            },
            { "$ref": "#/$defs/variable" }
          ]
        },
        "positiveDuration": {
          "description": "A length of time above zero, with units: 200ms, 1.5s, 1m30s, 2h.",
          "$ref": "#/$defs/duration",
          "pattern": "[1-9]|\\$\\{"
        },
        "nodeList": {
          "type": "array",
          "items": { "type": "string", "minLength": 1 },
          "uniqueItems": true
        },
        "caseName": {
          "description": "The name of a Swift case.",
          "type": "string",
          "pattern": "^[\\p{L}_][\\p{L}0-9_]*$"
        },
        "durability": {
          "description": "What a state and its events survive: nothing, the end of any process, or a loss of power. Default: process; a pipe's is that of its nodes.",
          "anyOf": [{ "enum": ["none", "process", "power"] }, { "$ref": "#/$defs/variable" }]
        },
        "case": {
          "description": "A bare label, or {label: {field: value}}.",
          "anyOf": [
            { "type": "string", "pattern": "^[\\p{L}_][\\p{L}0-9_]*$" },
            { "$ref": "#/$defs/variable" },
            {
              "type": "object",
              "minProperties": 1,
              "maxProperties": 1,
              "propertyNames": { "pattern": "^[\\p{L}_][\\p{L}0-9_]*$" },
              "additionalProperties": { "type": "object" }
            }
          ]
        },
        "template": {
          "description": "Any value. '$name' is the state's value of that name, '$$' a dollar.",
          "anyOf": [
            { "type": ["null", "boolean", "number"] },
            { "type": "string", "pattern": "^([^$]|\\$\\$|\\$[\\p{L}_]|\\$\\{[^}]*\\})*$" },
            { "type": "array", "items": { "$ref": "#/$defs/template" } },
            { "type": "object", "additionalProperties": { "$ref": "#/$defs/template" } }
          ]
        },
        "node": {
          "description": "One process: a machine, or a state that never changes.",
          "type": "object",
          "additionalProperties": false,
          "anyOf": [{ "required": ["machine"] }, { "required": ["constant"] }],
          "not": { "required": ["constant", "parameters"] },
          "properties": {
            "machine": {
              "description": "The machine's registered name.",
              "type": "string",
              "minLength": 1
            },
            "constant": {
              "description": "The state that the node stays in; a state of the machine, if named.",
              "$ref": "#/$defs/case"
            },
            "program": { "$ref": "#/$defs/program" },
            "parameters": {
              "description": "What the machine decodes its parameters from.",
              "type": "object"
            },
            "environment": { "$ref": "#/$defs/environment" },
            "restart": { "$ref": "#/$defs/restart" },
            "required": {
              "description": "Whether the node's failure takes the topology down. Default: false.",
              "anyOf": [{ "type": "boolean" }, { "$ref": "#/$defs/variable" }]
            },
            "depends_on": {
              "description": "The nodes that this one starts after: {node: ready}, {node: {state: STATE}}, or a list of nodes.",
              "anyOf": [
                {
                  "type": "object",
                  "additionalProperties": {
                    "anyOf": [
                      { "enum": ["ready"] },
                      { "$ref": "#/$defs/variable" },
                      { "$ref": "#/$defs/dependency" }
                    ]
                  }
                },
                { "$ref": "#/$defs/nodeList" }
              ]
            },
            "durability": { "$ref": "#/$defs/durability" }
          }
        },
        "dependency": {
          "description": "What a node waits for, beside that another one runs.",
          "type": "object",
          "additionalProperties": false,
          "required": ["state"],
          "properties": {
            "state": {
              "description": "A state's label, whatever its values are; {label: {field: value}}; or some fields of a struct.",
              "anyOf": [
                { "$ref": "#/$defs/caseName" },
                { "$ref": "#/$defs/variable" },
                { "type": "object", "minProperties": 1 }
              ]
            }
          }
        },
        "restart": {
          "description": "When the node is started again.",
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "policy": {
              "description": "Which ends are answered with a start. Default: on-failure.",
              "anyOf": [
                { "enum": ["never", "on-failure", "always"] },
                { "$ref": "#/$defs/variable" }
              ]
            },
            "max": {
              "description": "Restarts within the window before the node has failed. Default: 5.",
              "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 1000000 },
                { "$ref": "#/$defs/variable" }
              ]
            },
            "window": {
              "description": "How long a restart counts. Default: 60s.",
              "$ref": "#/$defs/positiveDuration"
            },
            "backoff": {
              "description": "The wait before a restart: doubled from initial up to max.",
              "type": "object",
              "additionalProperties": false,
              "properties": {
                "initial": {
                  "description": "The wait before the first restart. Default: 200ms.",
                  "$ref": "#/$defs/duration"
                },
                "max": {
                  "description": "The longest wait. Default: 10s.",
                  "$ref": "#/$defs/duration"
                },
                "jitter": {
                  "description": "The part of a wait that may be taken off at random. Default: 0.1.",
                  "anyOf": [
                    { "type": "number", "minimum": 0, "maximum": 1 },
                    { "$ref": "#/$defs/variable" }
                  ]
                }
              }
            }
          }
        },
        "pipe": {
          "description": "A bounded queue of events from one node to another.",
          "type": "object",
          "additionalProperties": false,
          "required": ["from", "to"],
          "properties": {
            "from": {
              "description": "NODE.PORT for an out-port, or NODE with 'when' and 'send'.",
              "type": "string",
              "pattern": "^[^.]+(\\..+)?$"
            },
            "to": {
              "description": "NODE.PORT for an in-port, or NODE, or COMPOSITE.",
              "type": "string",
              "pattern": "^[^.]+(\\..+)?$"
            },
            "when": {
              "description": "The state whose entry sends the event.",
              "type": "string",
              "minLength": 1
            },
            "send": {
              "description": "The event: a label, or {label: {field: value}} with '$name' values.",
              "allOf": [
                { "$ref": "#/$defs/case" },
                { "if": { "type": "object" }, "then": { "$ref": "#/$defs/template" } }
              ]
            },
            "name": {
              "description": "The pipe's name. Default: from its ends, such as a.out->b.in.",
              "type": "string",
              "anyOf": [{ "pattern": "^[^\\s]{1,128}$" }, { "$ref": "#/$defs/variable" }]
            },
            "capacity": {
              "description": "Events in flight before the sender must stop. Default: 1024.",
              "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65536 },
                { "$ref": "#/$defs/variable" }
              ]
            },
            "on_refused": {
              "description": "What happens to an event that the receiver refuses. Default: record.",
              "anyOf": [
                { "enum": ["record", "postpone", "fail"] },
                { "$ref": "#/$defs/variable" }
              ]
            },
            "durability": { "$ref": "#/$defs/durability" }
          },
          "if": { "properties": { "from": { "pattern": "\\$\\{" } } },
          "else": {
            "if": { "properties": { "from": { "pattern": "\\." } } },
            "then": { "properties": { "when": false, "send": false } },
            "else": { "required": ["when", "send"] }
          }
        },
        "composite": {
          "description": "Nodes that take some events together, and all others each for itself.",
          "type": "object",
          "additionalProperties": false,
          "required": ["components"],
          "properties": {
            "components": {
              "description": "Nodes with a machine, or other composites.",
              "$ref": "#/$defs/nodeList",
              "minItems": 1
            },
            "synchronize": {
              "description": "The events taken together: {event: [participants]}, or a list of events. Without participants, every component that takes the event takes part.",
              "anyOf": [
                {
                  "type": "object",
                  "propertyNames": { "$ref": "#/$defs/caseName" },
                  "additionalProperties": {
                    "anyOf": [
                      { "type": "null" },
                      { "$ref": "#/$defs/nodeList", "minItems": 1 }
                    ]
                  }
                },
                {
                  "type": "array",
                  "items": {
                    "anyOf": [{ "$ref": "#/$defs/caseName" }, { "$ref": "#/$defs/variable" }]
                  },
                  "uniqueItems": true
                }
              ]
            },
            "projection": {
              "description": "A composite state that the program registers. Default: the list of the nodes' states.",
              "type": "string",
              "minLength": 1
            },
            "program": { "$ref": "#/$defs/program" }
          }
        },
        "monitor": {
          "description": "A read-only process that watches nodes.",
          "type": "object",
          "additionalProperties": false,
          "required": ["monitor"],
          "properties": {
            "monitor": {
              "description": "The monitor's registered name.",
              "type": "string",
              "minLength": 1
            },
            "watch": {
              "description": "The nodes and composites that it watches. Default: all.",
              "$ref": "#/$defs/nodeList",
              "minItems": 1
            },
            "program": { "$ref": "#/$defs/program" }
          }
        }
      }
    }

    """#
}
