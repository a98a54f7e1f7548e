// Actions on many records: the selected ones, or all that match the filters.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useRef, useState } from 'react'
import { anything, invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Choice, Field, Instance, Json, Page } from '../../api/shapes.ts'
import { isEmpty } from '../../generic/changes.ts'
import { Failure } from '../../generic/failure.tsx'
import { FieldInput } from '../../generic/input.tsx'
import type { Matching } from '../../generic/list.tsx'
import { may } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { Checkbox, Chooser, MultiChooser, Select } from '../../kit/fields.tsx'
import { useShortcuts } from '../../kit/keys.ts'
import { HoldContext, useHolds } from '../../kit/messages.ts'
import { say } from '../../kit/toasts.tsx'
import { type OpenClass, RECORDS } from '../../shared/records/class.ts'
import { type Key, labelOf, t } from '../../texts.ts'
import { allMatching } from './all-matching.ts'
import { cut, inBatches, type Progress, SIZE } from './batch.ts'
import look from './records.module.css'

type Doing = 'edit' | 'owner' | 'task' | 'delete'

export interface BulkProps {
  openClass: OpenClass
  selected: Instance[]
  matching: Matching
  onClose: () => void
}

export function Bulk({ openClass, selected, matching, onClose }: BulkProps) {
  const [isAll, setIsAll] = useState(false)
  const [doing, setDoing] = useState<Doing | undefined>()
  const mayAll = (action: string) => selected.every((one) => may(one, action))
  const mayTask = selected.every(
    (one) => (one._meta?.permissions as { tasks?: { create?: boolean } } | undefined)?.tasks?.create === true,
  )
  const choices: { doing: Doing; text: Key; isShown: boolean }[] = [
    { doing: 'edit', text: 'records.bulk.edit', isShown: mayAll('edit') },
    { doing: 'owner', text: 'records.bulk.owner', isShown: mayAll('edit_owners') },
    { doing: 'task', text: 'records.bulk.task', isShown: mayTask },
    { doing: 'delete', text: 'delete', isShown: mayAll('delete') },
  ]
  const count = isAll ? matching.count : selected.length
  const offered = choices.filter(({ isShown }) => isShown)
  useShortcuts(
    offered.map((choice) => ({
      text: `${t('selected', { count: selected.length })}: ${t(choice.text)}`,
      run: () => setDoing(choice.doing),
    })),
  )
  const target: Target = { openClass, selected, matching, isAll, count }
  const isMore = matching.count === null || matching.count > selected.length
  if (matching.isTooMuch && isAll) setIsAll(false)
  return (
    <>
      {isMore && matching.isTooMuch && <span className={css.hint}>{t('records.bulk.gone')}</span>}
      {isMore && !matching.isTooMuch && (
        <label className={css.check}>
          <input type="checkbox" checked={isAll} onChange={(event) => setIsAll(event.target.checked)} />
          {matching.count === null ? t('records.bulk.all') : t('records.bulk.all-count', { count: matching.count })}
        </label>
      )}
      {offered.map((choice) => (
        <Button
          key={choice.doing}
          {...(choice.doing === 'delete' && { look: 'danger' as const })}
          onPress={() => setDoing(choice.doing)}
        >
          {t(choice.text)}
        </Button>
      ))}
      {doing === 'edit' && <EditMany target={target} onClose={() => setDoing(undefined)} onDone={onClose} />}
      {doing === 'owner' && <OwnMany target={target} onClose={() => setDoing(undefined)} onDone={onClose} />}
      {doing === 'task' && <TaskMany target={target} onClose={() => setDoing(undefined)} onDone={onClose} />}
      {doing === 'delete' && <DeleteMany target={target} onClose={() => setDoing(undefined)} onDone={onClose} />}
    </>
  )
}

interface Target {
  openClass: OpenClass
  selected: Instance[]
  matching: Matching
  isAll: boolean
  count: number | null
}

interface DoingProps {
  target: Target
  onClose: () => void
  onDone: () => void
}

interface RunProps extends DoingProps {
  title: string
  action: string
  send: (ids: number[]) => Promise<unknown>
  size?: number
  isReady: boolean
  isDangerous?: boolean
  children: ReactNode
}

type RunState = 'asking' | 'running' | 'over'

/** Runs an action over many records, in parts. */
function useRun({ target, send, size = SIZE, onClose, onDone }: RunProps) {
  const { openClass, selected, matching, isAll } = target
  const [progress, setProgress] = useState<Progress<number> | undefined>()
  const [state, setState] = useState<RunState>('asking')
  const [error, setError] = useState<unknown>()
  const isStopped = useRef(false)
  const path = openClass.resource.path
  async function* parts() {
    if (!isAll)
      return yield* cut(
        selected.map(({ id }) => Number(id)),
        size,
      )
    for await (const ids of allMatching(path, matching.parameters, () => isStopped.current)) yield* cut(ids, size)
  }
  const run = async () => {
    setState('running')
    setError(undefined)
    isStopped.current = false
    try {
      const outcome = await inBatches(parts(), send, setProgress, () => isStopped.current)
      setProgress(outcome)
      setState('over')
      if (outcome.refused.length === 0 && !isStopped.current) {
        say(t('records.bulk.done', { count: outcome.done }))
        onDone()
      }
    } catch (failed) {
      setError(failed)
      setState('over')
    }
    void invalidate(path, RECORDS)
  }
  const stop = () => {
    isStopped.current = true
  }
  const close = () => {
    stop()
    if (state === 'over') onDone()
    else onClose()
  }
  return { state, progress, error, run, stop, close }
}

/** The dialog of an action over many records: its question, its progress, and a report of refusals. */
function Run(props: RunProps) {
  const { target, title, action, isReady, isDangerous = false, children } = props
  const { state, progress, error, run, stop, close } = useRun(props)
  return (
    <Dialog title={title} isOpen mustBeAnswered={state === 'running'} onClose={close}>
      <div className={look.dialog}>
        {state === 'asking' && children}
        {state === 'running' && <RunProgress progress={progress} count={target.count} />}
        {error !== undefined && <Failure error={error} />}
        {state === 'over' && progress && <Report progress={progress} />}
        <div className={css.actions}>
          {state === 'asking' && (
            <Button look={isDangerous ? 'danger' : 'primary'} isDisabled={!isReady} onPress={() => void run()}>
              {action}
            </Button>
          )}
          {state === 'running' && <Button onPress={stop}>{t('records.stop')}</Button>}
          {state !== 'running' && (
            <Button look="quiet" onPress={close} autoFocus={isDangerous}>
              {state === 'over' ? t('close') : t('cancel')}
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  )
}

function RunProgress({ progress, count }: { progress: Progress<number> | undefined; count: number | null }) {
  const handled = (progress?.done ?? 0) + (progress?.refused.length ?? 0)
  return (
    <>
      <progress {...(count !== null && { value: handled, max: count })} aria-label={t('progress')} />
      <p role="status">{t('records.bulk.far', { count: handled, of: count ?? '…' })}</p>
    </>
  )
}

/** The result of a run, with the first hundred refusals. */
const Report = ({ progress: { done, refused } }: { progress: Progress<number> }) => (
  <>
    <p role="status">{t('records.bulk.report', { done, refused: refused.length })}</p>
    {refused.length > 0 && (
      <ul className={look.reasons}>
        {refused.slice(0, 100).map(({ item, text }) => (
          <li key={item}>{`#${item}: ${text}`}</li>
        ))}
      </ul>
    )}
  </>
)

const countText = (key: Key, count: number | null) => t(key, { count: count ?? -1 })

/** A field of files is not among them: an upload serves one place. */
const canBeSet = ({ type, editable }: Field) => type !== 'file' && editable !== false

function EditMany(props: DoingProps) {
  const { openClass, count } = props.target
  const fields = openClass.fields.filter(canBeSet)
  const [alias, setAlias] = useState<string | null>(null)
  const [value, setValue] = useState<Json>(null)
  const [isEmptying, setIsEmptying] = useState(false)
  const field = fields.find((one) => one.alias === alias)
  // An invalid typed value would empty the field.
  const { reasons, hold } = useHolds()
  const canEmpty = field !== undefined && !field.required && field.type !== 'status'
  const empty = field?.type === 'set' ? [] : null
  const send = (ids: number[]) =>
    call('PATCH', `${openClass.resource.path}batch/`, {
      body: { items: ids.map((id) => ({ id, fields: { [alias ?? '']: isEmptying ? empty : value } })) },
    })
  const choices = fields.map((one) => ({ value: one.alias, text: labelOf(one) }))
  const choose = (chosen: Json) => {
    setAlias(typeof chosen === 'string' ? chosen : null)
    setValue(null)
    setIsEmptying(false)
  }
  return (
    <Run
      {...props}
      title={countText('records.bulk.edit-title', count)}
      action={isEmptying ? countText('records.bulk.empty', count) : t('save')}
      send={send}
      isReady={isEmptying || (!isEmpty(value) && Object.keys(reasons).length === 0)}
      isDangerous={isEmptying}
    >
      {choices.length > 20 ? (
        <Chooser
          name="field"
          label={t('records.bulk.field')}
          isRequired
          value={alias}
          choices={choices}
          onChange={(chosen) => choose(chosen?.value ?? null)}
        />
      ) : (
        <Select
          name="field"
          label={t('records.bulk.field')}
          isRequired
          value={alias}
          choices={choices}
          onChange={choose}
        />
      )}
      {field && !isEmptying && (
        <HoldContext value={hold}>
          <NewValue key={alias} field={field} value={value} onChange={setValue} />
        </HoldContext>
      )}
      {canEmpty && (
        <Checkbox
          name="empty"
          label={t('records.bulk.empty-field', { name: labelOf(field) })}
          {...(isEmptying && { hint: t('records.bulk.empty-hint') })}
          value={isEmptying}
          onChange={setIsEmptying}
        />
      )}
    </Run>
  )
}

/** A box would have a value before anybody touches it: yes and no are chosen here. */
function NewValue({ field, value, onChange }: { field: Field; value: Json; onChange: (value: Json) => void }) {
  if (field.type !== 'boolean')
    return <FieldInput field={{ ...field, required: true }} name="value" value={value} onChange={onChange} />
  return (
    <Select
      name="value"
      label={labelOf(field)}
      hint={field.description}
      isRequired
      value={value === null ? null : `${value}`}
      choices={[
        { value: 'true', text: t('yes') },
        { value: 'false', text: t('no') },
      ]}
      onChange={(chosen) => onChange(chosen === null ? null : chosen === 'true')}
    />
  )
}

const USERS = '/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains='

function OwnMany(props: DoingProps) {
  const { openClass, count } = props.target
  const [owner, setOwner] = useState<Choice | null>(null)
  const send = (ids: number[]) =>
    call('PATCH', `${openClass.resource.path}batch/`, {
      body: { items: ids.map((id) => ({ id, owner: owner?.value ?? null })) },
    })
  return (
    <Run
      {...props}
      title={countText('records.bulk.owner-title', count)}
      action={t('records.bulk.owner')}
      send={send}
      isReady={owner !== null}
    >
      <Chooser
        name="owner"
        label={t('owner')}
        hint={t('records.bulk.owner-hint')}
        isRequired
        autocomplete={USERS}
        value={owner?.value ?? null}
        text={owner?.text ?? ''}
        onChange={setOwner}
      />
    </Run>
  )
}

/** Makes a task of a template for each record; templates are those that the first of them may have. */
function TaskMany(props: DoingProps) {
  const { selected, count } = props.target
  const first = selected[0]
  const path = `${RECORDS}${first?.id}/task-templates/?ordering=name`
  const templates = useQuery(anything<Page>(path))
  const [template, setTemplate] = useState<Json>(null)
  const [assignees, setAssignees] = useState<Choice[]>([])
  const send = ([id]: number[]) =>
    call('POST', '/api/tasks/', {
      body: { task_template: template, object_record: id, assignees: assignees.map(({ value }) => value) },
    })
  return (
    <Run
      {...props}
      title={countText('records.bulk.task-title', count)}
      action={t('records.tasks.start')}
      send={send}
      size={1}
      isReady={template !== null}
    >
      {templates.error && <Failure error={templates.error} />}
      <TaskInputs
        path={path}
        templates={templates.data}
        template={template}
        assignees={assignees}
        onTemplate={setTemplate}
        onAssignees={setAssignees}
      />
    </Run>
  )
}

export function TaskInputs({
  path,
  templates,
  template,
  assignees,
  onTemplate,
  onAssignees,
}: {
  /** The path of the templates. More than a page of them are searched there. */
  path: string
  templates: Page | undefined
  template: Json
  assignees: Choice[]
  onTemplate: (id: Json) => void
  onAssignees: (assignees: Choice[]) => void
}) {
  const [chosen, setChosen] = useState<Choice | null>(null)
  if (!templates) return null
  if (templates.results.length === 0) return <p>{t('records.tasks.no-templates')}</p>
  return (
    <>
      {templates.next ? (
        <Chooser
          name="task_template"
          label={t('records.tasks.template')}
          isRequired
          autocomplete={path}
          value={template as Choice['value'] | null}
          text={chosen?.text ?? ''}
          onChange={(choice) => {
            setChosen(choice)
            onTemplate(choice?.value ?? null)
          }}
        />
      ) : (
        <Select
          name="task_template"
          label={t('records.tasks.template')}
          isRequired
          value={template as Choice['value'] | null}
          choices={templates.results.map(({ id, name }) => ({ value: Number(id), text: `${name}` }))}
          onChange={onTemplate}
        />
      )}
      <MultiChooser
        name="assignees"
        label={t('records.tasks.assignees')}
        autocomplete="/api/users/autocomplete/?text__icontains="
        value={assignees}
        onChange={onAssignees}
      />
    </>
  )
}

function DeleteMany(props: DoingProps) {
  const { openClass, count } = props.target
  const send = (ids: number[]) => call('DELETE', `${openClass.resource.path}batch/`, { body: { ids } })
  return (
    <Run
      {...props}
      title={countText('records.bulk.delete-title', count)}
      action={t('delete')}
      send={send}
      isReady
      isDangerous
    >
      <p>{t('records.bulk.deletes')}</p>
    </Run>
  )
}
