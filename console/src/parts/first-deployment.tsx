import { Link } from "@tanstack/react-router";
import { baseUrl } from "../server.ts";
import { CommandLine } from "./command-line.tsx";
import { Empty } from "./notices.tsx";

/** Three ways to create the first deployment. Each works as shown. */
export function FirstDeployment() {
  return (
    <Empty title="No deployments yet">
      <p>
        A deployment builds your agent server, runs it and serves it at one address. There are three ways to create the
        first one:
      </p>
      <h3>In the console</h3>
      <p>
        Start from a template, a git repository, an image or a folder:{" "}
        <Link to="/host/new" className="button primary">
          New deployment
        </Link>
      </p>
      <h3>On the command line</h3>
      <CommandLine text="npx pierhead deploy --template node-server" />
      <h3>With the API</h3>
      <CommandLine
        text={`curl -X POST '${baseUrl}/v2/deployments' -H "X-Api-Key: $PIERHEAD_API_KEY" -H 'Content-Type: application/json' -d '{"name":"hello","source":"internal_template","source_config":{"template_id":"node-server"},"source_revision_config":{}}'`}
      />
    </Empty>
  );
}
