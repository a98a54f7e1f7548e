// One instance of a resource: its facts, edited in place, its actions, and its log.

import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { type ComponentType, useState } from 'react'
import { queries, type Read } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Field, Fields, Instance, Json, Options } from '../api/shapes.ts'
import { Button, Menu } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { useShortcuts } from '../kit/keys.ts'
import { say } from '../kit/toasts.tsx'
import { Moment, nameOf, Value } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { AskFirst } from './ask-first.tsx'
import { changed, isEmpty } from './changes.ts'
import { Edit } from './edit.tsx'
import { useEditing } from './editing.ts'
import { Reading, sayError } from './failure.tsx'
import { Form, fieldsFor } from './form.tsx'
import look from './generic.module.css'
import { Link, useGo } from './go.tsx'
import { Neighbours } from './neighbours.tsx'
import { ObjectLog } from './object-log.tsx'
import {
  type Action,
  deletesOf,
  keyOf,
  logFilter,
  may,
  oneOf,
  type PanelProps,
  type Parts,
  pathOf,
  type Resource,
  type Section,
  titleOf,
} from './resource.ts'
import { describedBy, instanceOf, invalidateResource, sendFields } from './shape.ts'
import { type Shown, ShownOnce, shownOnce } from './shown-once.tsx'

/** Switched on and off without a form. */
const isSwitch = ({ alias, editable }: Field) => alias === 'is_enabled' && editable !== false

const AUDIT = ['id', 'uuid', 'created_at', 'created_by', 'modified_at', 'modified_by']

interface DetailProps {
  resource: Resource
  parts: Parts
  id: string
}

export function Detail(props: DetailProps) {
  const { resource, id } = props
  const described = useQuery(describedBy(resource))
  const read = useQuery(instanceOf(pathOf(resource, id), resource.shape))
  const go = useGo()
  const instance = read.data?.instance
  const canEdit = instance !== undefined && may(instance, 'edit')
  const [isEditing, setIsEditing] = useEditing(instance && canEdit)
  useShortcuts([
    ...(canEdit && !isEditing ? [{ keys: 'e', text: t('edit'), run: () => setIsEditing(true) }] : []),
    ...(isEditing ? [] : [{ keys: 'Escape', text: t('back-to-list'), run: () => go(resource.route) }]),
  ])
  const reading = [read, described]
  if (!read.data || !described.data) return <Reading of={reading} title={titleOf(resource)} />
  return (
    <Loaded
      {...props}
      read={read.data}
      schema={described.data.details}
      reading={reading}
      isEditing={isEditing}
      onEdit={setIsEditing}
      onRefused={() => void read.refetch()}
    />
  )
}

interface LoadedProps extends DetailProps {
  read: Read
  schema: Options['details']
  reading: UseQueryResult[]
  isEditing: boolean
  onEdit: (isEditing: boolean) => void
  onRefused: () => void
}

function Loaded({ resource, parts, id, read, schema, reading, isEditing, onEdit, onRefused }: LoadedProps) {
  const path = pathOf(resource, id)
  const { instance } = read
  const { actions, begin, dialogs } = useActions(
    resource,
    read,
    offered({ resource, read, schema, isEditing }),
    onRefused,
  )
  const panels = (list: ComponentType<PanelProps>[] = []) =>
    list.map((Panel) => <Panel key={Panel.name} instance={instance} path={path} begin={begin} />)
  return (
    <>
      <nav className={look.trail} aria-label={t('trail')}>
        <Link to={resource.route}>{titleOf(resource)}</Link>
      </nav>
      <header className={look.head}>
        <h1 tabIndex={-1}>{resource.label(instance)}</h1>
        <Status schema={schema} instance={instance} />
        <div className={look.acts}>
          <Neighbours route={resource.route} id={id} />
          {may(instance, 'edit') && !isEditing && (
            <Button look="primary" icon="pencil" onPress={() => onEdit(true)}>
              {t('edit')}
            </Button>
          )}
          {actions.length > 0 && <Menu isOffered label={t('actions')} actions={actions} />}
        </div>
      </header>
      <Reading of={reading} />
      <div className={look.detail}>
        <div className={look.main}>
          {isEditing ? (
            <Edit
              path={path}
              list={resource.path}
              sections={resource.sections}
              hidden={resource.hidden}
              inputs={parts.inputs}
              shape={resource.shape}
              counts={parts.counts}
              read={read}
              details={schema}
              onDone={() => onEdit(false)}
            />
          ) : (
            <>
              {panels(parts.above)}
              <Facts
                sections={resource.sections}
                hidden={resource.hidden}
                views={parts.views}
                instance={instance}
                fields={fieldsFor(schema, instance).filter(({ alias }) => parts.counts?.(alias, instance) !== false)}
              />
              {panels(parts.panels)}
            </>
          )}
        </div>
        <aside className={look.side} aria-label={t('about')}>
          <About instance={instance} />
          {panels(parts.side)}
          {resource.hasLog !== false && (
            <ObjectLog filter={logFilter(resource, instance)} parts={resource.logParts?.(instance)} />
          )}
        </aside>
      </div>
      {dialogs}
    </>
  )
}

function Status({ schema, instance }: { schema: Options['details']; instance: Instance }) {
  const status = schema.schema.find(({ alias }) => alias === 'status')
  if (!status || instance.status === undefined) return null
  return <Value type="enum" values={status.values} value={instance.status} />
}

/** The actions that the page of an instance offers: the switch, those of the resource, and the deletion. */
function offered({
  resource,
  read,
  schema,
  isEditing,
}: Pick<LoadedProps, 'resource' | 'read' | 'schema' | 'isEditing'>) {
  const { instance } = read
  const canSwitch =
    may(instance, 'edit') && !isEditing && typeof instance.is_enabled === 'boolean' && schema.schema.some(isSwitch)
  return [
    ...(canSwitch ? [switchOf(resource, read)] : []),
    ...(resource.actions ?? []).filter((action) => action.isShown(instance)),
    ...(resource.canDelete !== false && may(instance, 'delete') ? [deletionOf(resource, read)] : []),
  ]
}

function switchOf(resource: Resource, { instance, etag }: Read): Action {
  const isOn = instance.is_enabled === true
  const flip = (is_enabled: boolean, ifMatch: string | null) =>
    call('PATCH', pathOf(resource, keyOf(resource, instance)), { body: { is_enabled }, ifMatch })
  return {
    id: 'switch',
    text: isOn ? 'switch-off' : 'switch-on',
    isShown: () => true,
    run: () => flip(!isOn, etag),
    undo: () => flip(isOn, null),
    done: isOn ? 'switched-off' : 'switched-on',
  }
}

function deletionOf(resource: Resource, { instance, etag }: Read): Action {
  const path = pathOf(resource, keyOf(resource, instance))
  return {
    id: 'delete',
    text: 'delete',
    isDangerous: true,
    question: 'delete-text',
    isShown: () => true,
    run: async () => {
      await call('DELETE', path, { ifMatch: etag })
      queries.removeQueries({ queryKey: [path] })
    },
    done: 'deleted',
  }
}

/** The actions as entries of a menu, with the dialogs that ask before an action and show its secret. */
function useActions(resource: Resource, { instance }: Read, actions: Action[], onRefused: () => void) {
  const go = useGo()
  const [pendingAction, setPendingAction] = useState<Action | undefined>()
  const [secret, setSecret] = useState<Shown | undefined>()
  const refused = (error: unknown) => {
    sayError(error)
    onRefused()
  }
  const undo = async (action: Action) => {
    await action.undo?.(instance).catch(refused)
    await invalidateResource(resource)
  }
  const act = async (action: Action) => {
    const outcome = await action.run(instance)
    if (action.id === 'delete') go(resource.route)
    setPendingAction(undefined)
    const made = shownOnce(action.secret ?? resource.secret, outcome as Fields | undefined)
    const done = typeof action.done === 'function' ? action.done(instance) : action.done
    if (made) setSecret(made)
    else say(t(done), { undo: action.undo && (() => void undo(action)) })
    await invalidateResource(resource)
  }
  const begin = (action: Action) => {
    if (action.question) setPendingAction(action)
    else act(action).catch(refused)
  }
  return {
    actions: actions.map((action) => ({
      id: action.id,
      text: t(action.text),
      isDangerous: action.isDangerous ?? false,
      run: () => begin(action),
    })),
    begin: (id: string) => {
      const action = actions.find((candidate) => candidate.id === id)
      if (action) begin(action)
    },
    dialogs: (
      <>
        {secret && <ShownOnce secret={secret} onClose={() => setSecret(undefined)} />}
        {pendingAction && (
          <AskFirst
            title={t(pendingAction.title ?? 'ask', { action: t(pendingAction.text), name: resource.label(instance) })}
            text={
              pendingAction.id === 'delete' ? deletesOf(resource, instance) : t(pendingAction.question ?? 'delete-text')
            }
            action={t(pendingAction.text)}
            name={pendingAction.id === 'delete' && resource.asksName ? resource.label(instance) : undefined}
            run={() => act(pendingAction)}
            onClose={() => setPendingAction(undefined)}
          />
        )}
      </>
    ),
  }
}

/** The fields with their values, by section. An empty field says so. */
export function Facts({
  sections: declared,
  hidden,
  views,
  instance,
  fields,
}: {
  sections: Section[]
  hidden?: string[] | undefined
  views?: Parts['views']
  instance: Instance
  fields: Field[]
}) {
  const byAlias = new Map(fields.map((field) => [field.alias, field]))
  const named = new Set([...declared.flatMap((section) => section.fields), ...AUDIT, ...(hidden ?? []), 'status'])
  const otherFields = fields.filter(({ alias, write_only }) => !named.has(alias) && !write_only && alias in instance)
  const sections = declared.map((section) => ({
    title: section.heading ?? t(section.title),
    hint: section.hint,
    isStep: section.isStep,
    fields: section.fields.flatMap((alias) => byAlias.get(alias) ?? []),
  }))
  const shownFields = (list: Field[]) => list.filter(({ alias, write_only }) => alias in instance && !write_only)
  const factView = (field: Field) => {
    const value = instance[field.alias]
    const View = views?.[field.alias]
    return (
      <div key={field.alias} className={look.fact}>
        <dt>{labelOf(field)}</dt>
        <dd>
          {View ? (
            <View value={value ?? null} instance={instance} field={field} />
          ) : (
            <FieldValue field={field} value={value} label={instance._meta?.labels?.[field.alias]} />
          )}
        </dd>
      </div>
    )
  }
  return (
    <>
      {sections.map(
        (section) =>
          shownFields(section.fields).length > 0 && (
            <section key={section.title} className={section.isStep ? look.step : look.section}>
              <h2>{section.title}</h2>
              {section.hint && <p className={css.hint}>{t(section.hint)}</p>}
              <dl className={look.facts}>{shownFields(section.fields).map(factView)}</dl>
            </section>
          ),
      )}
      {otherFields.length > 0 && (
        <section className={look.section}>
          <h2>{t('section.more')}</h2>
          <dl className={look.facts}>{otherFields.map(factView)}</dl>
        </section>
      )}
    </>
  )
}

function FieldValue({ field, value, label }: { field: Field; value: Json | undefined; label: Json | undefined }) {
  if (isEmpty(value)) return <span className={look.none}>{t('none')}</span>
  if (field.schema && typeof value === 'object' && !Array.isArray(value)) {
    return (
      <dl className={look.facts}>
        {field.schema
          .filter(({ alias }) => alias in value)
          .map((member) => (
            <div key={member.alias} className={look.fact}>
              <dt>{labelOf(member)}</dt>
              <dd>
                <FieldValue field={member} value={value[member.alias]} label={undefined} />
              </dd>
            </div>
          ))}
      </dl>
    )
  }
  return <Value type={field.type} values={field.values} label={label} value={value} />
}

/** The user and the time of the creation and of the last change. */
function About({ instance }: { instance: Instance }) {
  const who = (value: Json | undefined) =>
    value && typeof value === 'object' && !Array.isArray(value)
      ? nameOf(value as unknown as Parameters<typeof nameOf>[0])
      : t('the-system')
  if (typeof instance.created_at !== 'string') return null
  return (
    <dl className={look.facts}>
      <dt>{t('created')}</dt>
      <dd>
        <Moment value={instance.created_at} />
        {` · ${who(instance.created_by)}`}
      </dd>
      {typeof instance.modified_at === 'string' && (
        <>
          <dt>{t('modified')}</dt>
          <dd>
            <Moment value={instance.modified_at} />
            {` · ${who(instance.modified_by)}`}
          </dd>
        </>
      )}
      <dt>{t('identifier')}</dt>
      <dd>{`${instance.id ?? instance.uuid}`}</dd>
    </dl>
  )
}

/** Makes a new instance. */
export function Create({ resource, parts, initial }: { resource: Resource; parts: Parts; initial?: Fields }) {
  const described = useQuery(describedBy(resource))
  const go = useGo()
  const [values, setValues] = useState<Fields>(initial ?? {})
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const [round, setRound] = useState(0)
  const [isDone, setIsDone] = useState(false)
  const [next, setNext] = useState<string | undefined>()
  const [secret, setSecret] = useState<{ secret: Shown; to: string } | undefined>()
  if (isDone && next) {
    setNext(undefined)
    queueMicrotask(() => go(next))
  }
  if (!described.data) return <Reading of={[described]} title={titleOf(resource)} />
  const canBeSet = (field: Field) =>
    field.editable !== false || field.required || resource.onlyOnCreate?.includes(field.alias)
  const fields = fieldsFor(described.data.details, values).filter(
    (field) =>
      canBeSet(field) && !resource.hidden?.includes(field.alias) && parts.counts?.(field.alias, values) !== false,
  )
  const isChanged = Object.entries(changed(initial ?? {}, values)).some(
    ([alias, value]) => !isEmpty(value) || !isEmpty(initial?.[alias]),
  )
  const save = async (andNew: boolean) => {
    setIsBusy(true)
    try {
      const { data: answer } = await sendFields('POST', resource.path, values, resource.shape)
      const data = resource.shape ? resource.shape.instance(answer) : answer
      void invalidateResource(resource)
      say(t('created-one', { name: resource.label(data) }))
      setError(undefined)
      const made = shownOnce(resource.secret, data)
      if (made) {
        setIsDone(true)
        setSecret({ secret: made, to: `${resource.route}/${keyOf(resource, data)}` })
      } else if (andNew) {
        setValues(initial ?? {})
        setRound(round + 1)
        setIsBusy(false)
      } else {
        setIsDone(true)
        setNext(`${resource.route}/${keyOf(resource, data)}`)
      }
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  return (
    <>
      <nav className={look.trail} aria-label={t('trail')}>
        <Link to={resource.route}>{titleOf(resource)}</Link>
      </nav>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('create-one', { one: oneOf(resource) })}</h1>
      </header>
      <Reading of={[described]} />
      <Form
        key={round}
        fields={fields}
        sections={resource.sections}
        values={values}
        inputs={parts.inputs}
        error={error}
        isBusy={isBusy}
        isChanged={!isDone && isChanged}
        submit={t('create')}
        onChange={(alias, value) => setValues((before) => ({ ...before, [alias]: value }))}
        onSubmit={() => void save(false)}
        onSubmitAndNew={() => void save(true)}
        onCancel={() => go(resource.route)}
      />
      {secret && <ShownOnce secret={secret.secret} onClose={() => setNext(secret.to)} />}
    </>
  )
}
