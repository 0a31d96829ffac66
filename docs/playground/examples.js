/** The examples of each part: what the fields of its form have. */

const TOOLS = `files.read_file: Reads a file
files.write_file: Writes a file
tickets.search: Searches tickets by their text
tickets.get_ticket: Returns one ticket
mail.send: Sends a mail
mail.search: Searches mails
git-hub.create_issue: Opens an issue`;

const WEATHER = `{
  "type": "object",
  "properties": {
    "city": { "type": "string" },
    "days": { "type": "integer" },
    "units": { "enum": ["metric", "imperial"] }
  },
  "required": ["city"]
}`;

const TICKET = `{
  "type": "object",
  "properties": {
    "id": { "type": "string" },
    "account": { "type": "integer" },
    "tags": { "type": "array", "items": { "type": "string" } },
    "urgent": { "type": "boolean" }
  },
  "required": ["id"]
}`;

const MAIL_TOOLS = `web.fetch [read-only, open-world]: Fetches a page
mail.read [read-only]: Reads a mail
mail.send [destructive, open-world]: Sends a mail`;

const STRANGERS = `{
  "rules": {
    "lists": [[
      {
        "name": "mail-to-strangers",
        "tools": ["mail.send"],
        "when": "'untrusted' in labels && !known(emails(args))",
        "then": "ask",
        "because": "this address came from nowhere that is trusted"
      }
    ]],
    "results": [{ "tools": "web.*", "labels": ["untrusted"] }],
    "known": ["@example.com"]
  }
}`;

const FILE_TOOLS = `files.read_file [read-only]: Reads a file
files.write_file: Writes a file
files.delete_file [destructive]: Deletes a file`;

const WORKSPACE = `{
  "rules": {
    "lists": [[
      {
        "name": "stay-in-the-workspace",
        "tools": ["files.write_*"],
        "when": "!path.within(args.path, '/srv/agent')",
        "then": "deny",
        "because": "writes stay in /srv/agent"
      }
    ]]
  }
}`;

const READ_ONLY = `{
  "policy": {
    "read_only": true
  }
}`;

const DEPLOY = `{
  "rules": {
    "lists": [[
      {
        "name": "release-managers",
        "tools": ["deploy.*"],
        "when": "args.environment != 'production' || 'release' in principal.groups",
        "then": "allow"
      },
      {
        "name": "production",
        "tools": ["deploy.*"],
        "then": "ask",
        "because": "production is for release managers"
      },
      {
        "name": "robots-at-night",
        "tools": ["deploy.*"],
        "when": "'robots' in principal.groups && now.getHours() < 6",
        "then": "deny"
      }
    ]]
  }
}`;

const BUDGET = `{
  "rules": {
    "lists": [[
      {
        "name": "budget",
        "tools": ["crm.search"],
        "then": "deny",
        "limit": { "calls": 100, "per_ms": 3600000, "by": "principal" },
        "because": "the CRM is slow"
      }
    ]]
  }
}`;

const MANY_TOOLS = `files.read_file: Returns the text of a file
files.write_file: Writes a text to a file and replaces what it had
files.delete_file: Deletes a file from the disk
files.list_directory: Lists the files of a folder
git.git_commit: Records changes to the repository
git.git_diff: Shows what has changed since the last commit
weather.get_forecast: Returns the forecast for a city and some days
weather.get_alerts: Lists the warnings of storms for a region
mail.send: Sends a mail with attachments
mail.search: Searches mails by words, sender and date
calendar.create_event: Makes an appointment and invites people
calendar.find_free_time: Finds an hour at which several people are free
crm.get_customer: Returns the record of a customer
crm.merge_customers: Joins two records of the same customer
tickets.close_ticket: Closes a ticket with a comment`;

const call = (fields) => ({ principal: 'ann', groups: '', labels: '', known: '', now: '', calls: '0', ...fields });

export const examples = {
  names: [
    { title: 'Another prefix', fields: { name: 'mcp__tickets__get_ticket', tools: TOOLS } },
    { title: 'Another spelling', fields: { name: 'mcp_git-hub_create_issue', tools: TOOLS } },
    { title: 'No server', fields: { name: 'get_ticket', tools: TOOLS, bare: 'on' } },
    { title: 'Two tools', fields: { name: 'search', tools: TOOLS, bare: 'on' } },
    { title: 'A misspelt name', fields: { name: 'files.raed_file', tools: TOOLS } },
  ],
  arguments: [
    { title: 'Pairs', fields: { text: 'city: Paris, days: 3, units: metric', schema: WEATHER } },
    { title: 'Broken JSON', fields: { text: "```json\n{'city': 'Paris', days: 3,}\n```", schema: WEATHER } },
    { title: 'YAML', fields: { text: 'id: 007\ntags:\n  - billing\n  - vip\nurgent: true', schema: TICKET } },
    { title: 'Long numbers', fields: { text: '{"id": 7, "account": 9007199254740993}', schema: TICKET } },
    { title: 'Something missing', fields: { text: 'days: three', schema: WEATHER } },
    { title: 'Plain text', fields: { text: 'What will the weather be in Paris?', schema: '' } },
  ],
  masks: [
    {
      title: 'A log',
      fields: {
        text: `connecting as admin@example.com
Authorization: Bearer abcdef1234567890
database: postgres://app@db.example.com/shop
password: "not-a-real-password"
order 4711 is paid`,
        group: 'all', custom: '',
      },
    },
    {
      title: 'JSON in JSON',
      fields: { text: '{"user": "ann", "config": "{\\"api_key\\": \\"abcdefghijklmnop1234\\", \\"retries\\": 3}"}', json: 'on', group: 'basic', custom: '' },
    },
    {
      title: 'A Secret of Kubernetes',
      fields: {
        text: `apiVersion: v1
kind: Secret
metadata:
  name: shop
data:
  user: YWRtaW4=
  password: bm90LXJlYWw=`,
        group: 'kubernetes', custom: '',
      },
    },
    {
      title: 'A mask of your own',
      fields: { text: 'customer 123456 called, and customer 654321 did not', pattern: 'email', custom: 'customer (?P<value>\\d{6}) => [CUSTOMER]' },
    },
    { title: 'Nothing to hide', fields: { text: 'The token economy needs a password policy.', group: 'basic', custom: '' } },
  ],
  rules: [
    {
      title: 'Mail to a stranger',
      fields: call({ name: 'mail.send', arguments: 'to: eve@evil.example, body: hello', settings: STRANGERS, tools: MAIL_TOOLS, labels: 'untrusted' }),
    },
    {
      title: 'Mail to a colleague',
      fields: call({ name: 'mail.send', arguments: 'to: bob@example.com, body: hello', settings: STRANGERS, tools: MAIL_TOOLS, labels: 'untrusted' }),
    },
    {
      title: 'A way out of the folder',
      fields: call({ name: 'files__write_file', arguments: '{"path": "/srv/agent/../../etc/passwd", "text": "x"}', settings: WORKSPACE, tools: FILE_TOOLS }),
    },
    {
      title: 'Only reading',
      fields: call({ name: 'files.delete_file', arguments: 'path: /srv/agent/notes', settings: READ_ONLY, tools: FILE_TOOLS }),
    },
    {
      title: 'Who may deploy',
      fields: call({ principal: 'ann', groups: 'release', name: 'deploy.start', arguments: 'environment: production', settings: DEPLOY, tools: 'deploy.start: Starts a deployment' }),
    },
    {
      title: 'Too many calls',
      fields: call({ name: 'crm.search', arguments: 'name: Ann', settings: BUDGET, tools: 'crm.search [read-only]: Finds customers', calls: '100' }),
    },
  ],
  search: [
    { title: 'What it does', fields: { query: 'Is there a storm warning?', tools: MANY_TOOLS } },
    { title: 'Another word', fields: { query: 'erase something', tools: MANY_TOOLS } },
    { title: 'A typing mistake', fields: { query: 'forcast', tools: MANY_TOOLS } },
    { title: 'Its name', fields: { query: 'READ-FILE', tools: MANY_TOOLS } },
    { title: 'Two wishes', fields: { query: 'Find a free hour. Then invite Bob to a meeting.', tools: MANY_TOOLS } },
  ],
};
