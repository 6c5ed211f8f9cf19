//! The table of endpoints: each row makes a route and its part of the OpenAPI document, both from
//! the types of its handler. So what the document says of parameters, bodies and answers is what is
//! read and written.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::body::{BodyTurn, WholeBody, whole};
use crate::call::Call;
use crate::door::{Door, Who};
use crate::problem::Problem;

/// The first number beyond what whole numbers of the API can say.
const MOST_WHOLE: f64 = 18_446_744_073_709_551_616.0;
/// The place of schemas in the document.
const SCHEMAS: &str = "/components/schemas";

/// Something that is read from a query (`serde_urlencoded`).
pub(crate) trait Query: DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Query for T {}

/// The query of a request that has none.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// Something that is read from a body.
pub(crate) trait Sent: Sized + Send + 'static {
    /// Reads it from what this user sends.
    fn read(
        who: &Who,
        headers: &HeaderMap,
        body: Body,
    ) -> impl Future<Output = Result<Self, Problem>> + Send;

    /// Returns what the document says of it.
    fn describe(schemas: &mut SchemaGenerator) -> Option<Value>;
}

/// The body of a request that has none; one that is sent is not looked at.
#[derive(Debug)]
pub(crate) struct NoBody;

impl Sent for NoBody {
    async fn read(_: &Who, _: &HeaderMap, _: Body) -> Result<Self, Problem> {
        Ok(Self)
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        None
    }
}

/// A body of JSON.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Sent for JsonBody<T> {
    async fn read(who: &Who, headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let read = LargeJsonBody::<T>::read(who, headers, body).await?;
        Ok(Self(read.fields))
    }

    fn describe(schemas: &mut SchemaGenerator) -> Option<Value> {
        let schema = schemas.subschema_for::<T>();
        Some(json!({
            "required": true,
            "content": { "application/json": { "schema": schema } },
        }))
    }
}

/// A body of JSON of which much is made.
pub(crate) struct LargeJsonBody<T> {
    /// The fields that were read.
    pub(crate) fields: T,
    /// The turn of a large one, to be given back once the memory is free again.
    pub(crate) turn: Option<BodyTurn>,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Sent for LargeJsonBody<T> {
    async fn read(who: &Who, headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "the body has to be JSON",
                "send Content-Type: application/json",
            ));
        }

        let WholeBody { bytes, turn } = whole(who.id, body).await?;
        // A struct is read from a list as well, which no document says.
        let senseless = |error: &dyn std::fmt::Display| {
            Problem::invalid(
                format!("the body is not understood: {error}"),
                "GET /api/v1/openapi.json says what it may have",
            )
        };
        let fields = serde_json::from_slice::<Map<String, Value>>(&bytes);
        let fields = fields.map_err(|error| senseless(&error))?;
        drop(bytes);
        let read = serde_path_to_error::deserialize(whole_numbers(fields.into()));
        let fields = read.map_err(|error| senseless(&error))?;
        Ok(Self { fields, turn })
    }

    fn describe(schemas: &mut SchemaGenerator) -> Option<Value> {
        JsonBody::<T>::describe(schemas)
    }
}

/// A body of bytes, whatever they are.
pub(crate) struct BytesBody(pub(crate) WholeBody);

impl Sent for BytesBody {
    async fn read(who: &Who, _: &HeaderMap, body: Body) -> Result<Self, Problem> {
        whole(who.id, body).await.map(Self)
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        let content = json!({ "application/octet-stream": {} });
        Some(json!({ "required": false, "content": content }))
    }
}

/// Writes `3.0` as `3`, which is a whole number to JSON Schema and none to serde.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(real) if number.is_f64() && real.fract() == 0.0 && real.abs() < MOST_WHOLE => {
                if real < 0.0 {
                    json!(real as i64)
                } else {
                    json!(real as u64)
                }
            }
            _ => number.into(),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, whole_numbers(value)))
            .collect(),
        other => other,
    }
}

/// Something that answers a request.
pub(crate) trait Respond: Send {
    /// Makes the answer.
    fn respond(self) -> Response;

    /// Returns what the document says of it: an object with a field for each status.
    fn describe(schemas: &mut SchemaGenerator) -> Value;
}

/// The table while it is made.
pub(crate) struct Table {
    router: Router<Arc<dyn Door>>,
    paths: BTreeMap<&'static str, Map<String, Value>>,
    read: SchemaGenerator,
    written: SchemaGenerator,
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = SCHEMAS.into();
        settings.meta_schema = None;
    })
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            paths: BTreeMap::new(),
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// Begins the row of something that is read.
    pub(crate) fn get(&mut self, path: &'static str, name: &'static str) -> Row<'_> {
        self.row(Method::GET, path, name)
    }

    /// Begins the row of something that changes the grid.
    pub(crate) fn post(&mut self, path: &'static str, name: &'static str) -> Row<'_> {
        self.row(Method::POST, path, name)
    }

    /// Begins the row of something that is put in its place.
    pub(crate) fn put(&mut self, path: &'static str, name: &'static str) -> Row<'_> {
        self.row(Method::PUT, path, name)
    }

    fn row(&mut self, verb: Method, path: &'static str, name: &'static str) -> Row<'_> {
        Row {
            table: self,
            verb,
            path,
            name,
            about: "",
        }
    }

    /// Returns the routes, and the document for `docs/openapi.json`.
    pub(crate) fn finish(mut self) -> (Router<Arc<dyn Door>>, Value) {
        let mut schemas = self.read.take_definitions(true);
        schemas.append(&mut self.written.take_definitions(true));
        let paths: Map<String, Value> = self
            .paths
            .into_iter()
            .map(|(path, verbs)| (format!("/api/v1{}", path.replace("{*", "{")), verbs.into()))
            .collect();
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "deskgrid",
                "version": "1",
                "description": "Jobs, tasks and hosts of a grid. docs/api.md says how to get in.",
            },
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": { "type": "http", "scheme": "bearer" },
                },
            },
            "security": [{ "bearer": [] }],
        });

        (self.router, bounded(without_suffix(document)))
    }
}

/// One row of the table, which [`Row::serve`] adds to it.
#[must_use]
pub(crate) struct Row<'a> {
    table: &'a mut Table,
    verb: Method,
    /// The path below `/api/v1`, with parameters in braces.
    path: &'static str,
    /// The name of the operation for programs.
    name: &'static str,
    /// Its purpose, in a sentence.
    about: &'static str,
}

impl Row<'_> {
    /// Says its purpose, in a sentence.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Adds the endpoint, with its handler.
    pub(crate) fn serve<Q, B, A, F>(
        mut self,
        handler: impl Fn(Call, Q, B) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: Query,
        B: Sent,
        A: Respond,
        F: Future<Output = Result<A, Problem>> + Send + 'static,
    {
        self.describe::<Q, B, A>();
        let route = move |State(door): State<Arc<dyn Door>>,
                          Extension(who): Extension<Who>,
                          params: Result<RawPathParams, _>,
                          request: Request| async move {
            let answered = async {
                let params = params.map_err(bad_path)?;
                let query = query(request.uri().query().unwrap_or_default())?;
                let (parts, body) = request.into_parts();
                let body = B::read(&who, &parts.headers, body).await?;
                let call = Call::new(door, who, &params, parts.headers);
                handler(call, query, body).await
            };
            match answered.await {
                Ok(answer) => answer.respond(),
                Err(problem) => problem.into_response(),
            }
        };

        let filter = MethodFilter::try_from(self.verb);
        let route = on(filter.unwrap_or(MethodFilter::GET), route);
        let router = std::mem::take(&mut self.table.router);
        self.table.router = router.route(self.path, route);
    }

    /// Adds what the document says of an endpoint, an `operation`.
    fn describe<Q: Query, B: Sent, A: Respond>(&mut self) {
        let mut answers = A::describe(&mut self.table.written);
        let problem = self.table.written.subschema_for::<Problem>();
        answers["default"] = json!({
            "description": "The request was not carried out.",
            "content": { "application/problem+json": { "schema": problem } },
        });

        let mut operation = json!({
            "operationId": self.name,
            "summary": self.about,
            "responses": answers,
        });
        let mut parameters = path_parameters(self.path);
        parameters.extend(query_parameters::<Q>());
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = B::describe(&mut self.table.read) {
            operation["requestBody"] = body;
        }

        let verb = self.verb.as_str().to_ascii_lowercase();
        self.table
            .paths
            .entry(self.path)
            .or_default()
            .insert(verb, operation);
    }
}

/// Takes the `Json` off the names of types: readers of the document know of no other form.
fn without_suffix(value: Value) -> Value {
    let short = |text: String| match text.strip_suffix("Json") {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => text,
    };

    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(path) if name == "$ref" => (name, short(path).into()),
                value => (short(name), without_suffix(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(without_suffix).collect(),
        other => other,
    }
}

/// Says of each number which ones fit: readers of the document know nothing of our types.
fn bounded(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Map<String, Value> = fields
                .into_iter()
                .map(|(name, value)| (name, bounded(value)))
                .collect();
            let (least, most) = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
                Some("uint16") => (json!(0), json!(u16::MAX)),
                Some("uint32") => (json!(0), json!(u32::MAX)),
                Some("uint64") => (json!(0), json!(u64::MAX)),
                _ => return fields.into(),
            };
            fields.entry("minimum").or_insert(least);
            fields.entry("maximum").or_insert(most);
            fields.into()
        }
        Value::Array(items) => items.into_iter().map(bounded).collect(),
        other => other,
    }
}

/// The parameters in a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1);
    let names = names.filter_map(|rest| rest.split('}').next());
    let parameter = |name: &str| {
        let name = name.trim_start_matches('*');
        let schema = match name {
            "job" => json!({ "type": "string", "pattern": "^([0-9]{1,9}|last)$" }),
            "task" => json!({ "type": "string", "pattern": "^([0-9]{1,9}\\.)?[0-9]{1,9}$" }),
            "token" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            "hash" => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };

    names.map(parameter).collect()
}

/// The parameters in a query.
fn query_parameters<Q: JsonSchema>() -> Vec<Value> {
    let mut settings = settings().for_deserialize();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<Q>();
    let fields = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let parameter = |(name, schema): (&String, &Value)| {
        let needed = required.is_some_and(|all| all.iter().any(|one| one == name));
        json!({ "name": name, "in": "query", "required": needed, "schema": not_null(schema) })
    };
    fields.into_iter().flatten().map(parameter).collect()
}

/// A schema without `null`, which a query cannot say.
fn not_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [one] = &kinds[..] {
            schema["type"] = one.clone();
        }
    }
    if let Some(ways) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        ways.retain(|way| way.get("type").is_none_or(|kind| kind != "null"));
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema
            .as_object_mut()
            .map(|fields| fields.remove("default"));
    }

    schema
}

fn query<Q: Query>(text: &str) -> Result<Q, Problem> {
    serde_urlencoded::from_str(text).map_err(|error| {
        Problem::invalid(
            format!("the query is not understood: {error}"),
            "GET /api/v1/openapi.json says what it may have",
        )
    })
}

fn bad_path(error: impl std::fmt::Display) -> Problem {
    Problem::invalid(format!("the path is not understood: {error}"), "")
}
