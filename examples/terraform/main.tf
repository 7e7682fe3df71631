terraform {
  required_version = ">= 1.11"
  required_providers {
    langsmith = {
      source = "langchain-ai/langsmith"
    }
  }
}

# The key comes from LANGSMITH_API_KEY, the workspace from LANGSMITH_WORKSPACE_ID.
provider "langsmith" {
  api_url = "https://pierhead.example.com/api/v1"
}

variable "support_secrets" {
  type      = map(string)
  sensitive = true
  ephemeral = true
  default   = {}
}

resource "langsmith_deployment" "support" {
  name         = "support"
  display_name = "Support"
  source       = "github"

  source_config = {
    repo_url        = "https://github.com/example/support"
    deployment_type = "dev"
    build_on_push   = false
  }

  source_revision_config = {
    repo_ref              = "main"
    langgraph_config_path = "langgraph.json"
  }

  environment_variables = {
    LOG_LEVEL = "info"
  }

  secrets = var.support_secrets
}
