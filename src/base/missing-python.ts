const pythonPrograms =
  /^(?:python|pip)[\d.]*$|^(?:uvicorn|gunicorn|hypercorn|granian|fastapi|flask|litestar|sanic|streamlit|chainlit|adk|aegra|fastmcp|hayhooks|poetry|pdm|uv)$/;

/** Returns what to do about a program of a `pierhead.json` that is not on the PATH; null: it does not belong to Python. */
export function missingPythonHint(program: string): string | null {
  if (!pythonPrograms.test(program)) return null;
  return `Set "python": true in pierhead.json. The build then installs Python with the project's dependencies.`;
}
