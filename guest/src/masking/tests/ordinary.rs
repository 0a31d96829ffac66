//! Ordinary answers of tools, which every mask must leave as they are, byte for byte.

use super::*;

#[test]
fn ordinary_answers_stay_as_they_are() {
    let masker = masker(&["all"], &[], &[]).unwrap();
    let mut changed = Vec::new();
    for text in ORDINARY {
        let wrapped = json::Value::Array(vec![json::Value::string(*text)]).to_json();
        let results = [
            (*text, masker.mask(text)),
            (*text, masker.mask_across_lines(text)),
            (&wrapped, masker.mask_json(&wrapped)),
        ];
        changed
            .extend(results.into_iter().filter(|(text, masked)| text != masked).map(|(_, masked)| masked.into_owned()));
    }
    assert!(changed.is_empty(), "{changed:#?}");
}

const ORDINARY: &[&str] = &[
    // Prose about passwords and tokens.
    "To reset your password:\nOpen the settings page and choose Security.\nA password must have at least 12 characters.",
    "Token:\n\nA token is the smallest unit that the parser reads, such as an identifier, a keyword or a number.",
    "The form has these fields: username, password, remember me\nAll of them are required, except the last",
    "username, password\nare required, always",
    "Passwords are hashed, tokens expire after 3600s, and secrets rotate every 30d.",
    "Password: required\nToken: optional\nSecret: none",
    "Step 3: enter the password\nStep2\nStep 4: press Enter",
    "Which key?\nThe primary key of the table users2 is id.",
    "## API key\n\nCreate one in the console. See https://example.com/docs/v2/keys for details.\n",
    "Secret:\n- name of the secret\n- namespace\n",
    "Password:\n  secretKeyRef:\n    name: db-credentials\n    key: db-2024\n",
    "secret:\nname=db-credentials\n",
    "Password:\nRequired!\n",
    "Token:\nAuthentication\n",
    "密码：请输入您的密码，至少８位。令牌（token）有效期为１小时。",
    "パスワード：８文字以上で入力してください。ＡＢＣ株式会社",
    "naïve café — cre\u{300}me brûlée, pass\u{e9}, 𝑥² + 𝑦² = 𝑟², family 👨\u{200d}👩\u{200d}👧 and left to right",
    // Code.
    "def login(username, password):\n    token = request.headers.get('token')\n    return check(username, password)\n",
    "const { password, token } = req.body;\nif (!password) throw new Error('password is required');\n",
    "fields = [\"id\", \"password\", \"created_at\"]\nrequired = [\"password\", \"email\"]\npair = [\"token\", \"name\"]\n",
    "Column(\"password\", String(255)), Column(\"token\", \"varchar(255)\")\n",
    "CREATE TABLE users (id int, password varchar(255), token varchar(64));\n",
    "match token {\n    Token::Key => Some(Key),\n    Token::Value(v2) => None,\n}\n",
    "for (key, value) in [(\"a\", \"b1\"), (\"c\", \"d2\")] { println!(\"{key}={value}\"); }\n",
    "let parts = [\"secret_name\", \"config2.yaml\"];\n",
    "expect(screen.getByLabelText('Password')).toBeVisible();\n",
    // Listings.
    "total 24\n-rw-r--r-- 1 me me  120 Jan  1 10:30 password.go\n-rw-r--r-- 1 me me 4096 Jan  1 10:30 token_test2.go\n",
    "password\ntoken\nsecret\ntls2.crt\nvalues-2024.yaml\n",
    r#"[{"name":"password.txt","size":12,"value":"text/plain"},{"name":"token.rs","modified":"2024-01-01T10:30:00Z"}]"#,
    r#"{"files":["src/token.rs","src/secret/v2.rs"],"count":2}"#,
    r#"{"keys":["password","user1"],"names":["token","x2"],"topics":["secret","h2o"]}"#,
    // Schemas and forms.
    r#"{"type":"object","properties":{"password":{"type":"string","minLength":8},"token":{"type":"string"}},"required":["password","user2"]}"#,
    r#"{"name":"token","in":"header","description":"The token of the session, version 2","schema":{"type":"string"}}"#,
    r#"{"name":"password","value":"","type":"password","label":"Password"}"#,
    r#"{"name":"password","value":null}"#,
    r#"{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"name":"db-credentials","key":"password"}}}"#,
    r#"{"name":"max_tokens","value":"4096000000"}"#,
    r#"{"name":"API_KEY","value":"${API_KEY}"}"#,
    r#"{"name":"colour","value":"dark-blue-1"}"#,
    r#"{"columns":["name","type","nullable"],"rows":[["password","varchar",false],["token","uuid",true]]}"#,
    r#"[["name","type"],["password","varchar"],["token","text"]]"#,
    r#"[["user","role"],["bob1","admin2"]]"#,
    // Tables.
    "field,type,description\npassword,string,the password of the account\ntoken,string,a token\n",
    "name,secret,namespace\napp,db-credentials,default\nweb,tls-certificates,kube-system\n",
    "| Field | Type |\n|---|---|\n| password | string |\n| token | varchar(64) |\n",
    "| Rule | Password |\n|---|---|\n| Length | twelve |\n| Rotation | 90d |\n| Since | 2024-01-01 |\n",
    "cat users.txt | grep password\ncat users2.txt | wc -l2\n",
    "NAME                  TYPE                                  DATA   AGE\ndefault-token-x7k2p   kubernetes.io/service-account-token   3      12d\n",
    "NAME       SECRETS   AGE\ndefault    1         12d\n",
    "Name:         web\nMountable secrets:   web-token\nTokens:              web-token\nEvents:              <none>\n",
    // Logs and the output of tools.
    "2024-01-01T10:30:00Z INFO token refreshed, user=42, took 12ms\n2024-01-01T10:30:01Z WARN password expires soon, user=7, in 3d\n",
    "error: unexpected token:\n  --> src/main.rs:12:5\n",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad\nDate:   Mon Jan 1 10:30:00 2024\n\n    auth: token rotation, password hashing\n",
    "diff --git a/token.rs b/token.rs\nindex 3b18e51..8e728b8 100644\n--- a/token.rs\n+++ b/token.rs\n@@ -1,2 +1,2 @@\n-let key = 1;\n+let key = 2;\n",
    "On branch main\nChanges not staged for commit:\n\tmodified:   secret.yaml\n\tmodified:   token2.rs\n",
    "test auth::token_is_refreshed ... ok\ntest auth::password_is_hashed ... ok\n\ntest result: ok. 2 passed; 0 failed\n",
    "Key findings:\n42\n",
    "usage: login [--user NAME] [--password-file FILE]\n\noptions:\n  --password-file FILE  read the password from FILE\n",
    r#"{"usage":{"prompt_tokens":1200,"completion_tokens":34567890,"total_tokens":34569090},"next_page_token":"CAUQAA1234567"}"#,
];
