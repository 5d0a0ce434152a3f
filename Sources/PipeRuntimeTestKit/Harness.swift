// The harness goes here.
