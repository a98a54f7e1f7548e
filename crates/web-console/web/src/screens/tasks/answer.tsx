// The form of a task, and its answer.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Field, Fields, Instance, Json } from '../../api/shapes.ts'
import { changed } from '../../generic/changes.ts'
import { sayError } from '../../generic/failure.tsx'
import { Files, type Kept } from '../../generic/files.tsx'
import { editable, Form } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { useGo } from '../../generic/go.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { saveFile } from '../../generic/save.ts'
import { instanceOf } from '../../generic/shape.ts'
import { Button } from '../../kit/buttons.tsx'
import { Value } from '../../kit/values.tsx'
import { BesideRecord } from '../../shared/forms/component-input.tsx'
import { answerOf, fieldOf, missing, type Question, questionsOf, shownOf } from '../../shared/forms/questions.ts'
import { RecordFormInput, RecordInput } from '../../shared/forms/record-input.tsx'
import { refusal, within } from '../../shared/forms/refusals.ts'
import { RECORDS } from '../../shared/records/class.ts'
import { RECORD } from '../../shared/records/shape.ts'
import { labelOf, t } from '../../texts.ts'
import { performStep } from './step-dialog.tsx'
import look from './tasks.module.css'

const NAME = 'comment'
const FILES = '/api/files/response/file/'

/** The files of an answer have names in their addresses only. */
const knownIn = (value: Json[]): { [id: string]: Kept } =>
  Object.fromEntries(
    value.flatMap((item) => {
      const id = (item as Fields | null)?.file
      return typeof id === 'string' ? [[id, { name: t('files.unnamed'), url: `${FILES}${id}/` }]] : []
    }),
  )

function QuestionInput({ field, name, value, onChange }: InputProps) {
  const [storedFiles] = useState(() => knownIn(Array.isArray(value) ? value : []))
  if (field.type !== 'file') return <RecordInput field={field} name={name} value={value} onChange={onChange} />
  return (
    <Files
      name={name}
      label={labelOf(field)}
      hint={field.description}
      isRequired={field.required}
      value={Array.isArray(value) ? value : []}
      most={1}
      known={storedFiles}
      wrap={(token) => ({ file: token })}
      onChange={(now) => onChange(now.length > 0 ? now : null)}
    />
  )
}

/** A configuration without questions asks for one text. */
const textQuestion = (): Question[] => [
  { name: 'text', label: t('task.answer'), type: 'longtext', options: [], required: true, help: '' },
]

export const formOf = ({ form }: Instance): Fields => (form ?? {}) as Fields
const isUpdate = (form: Fields) => form.task_type === 'tt_object_record_update'
const recordFieldsOf = (form: Fields) => (Array.isArray(form.fields) ? form.fields : []) as unknown as Field[]
export const questionsIn = (form: Fields) => questionsOf(form.configuration) ?? textQuestion()

/**
 * The answer beside the record of the task. The record is read if a component gets its fields, and if the caller may
 * view it.
 */
export function Answer({ task }: { task: Instance }) {
  const id = Number(task.object_record ?? 0)
  const isTold = questionsIn(formOf(task)).some(({ custom }) => custom?.fields)
  const read = useQuery({ ...instanceOf(`${RECORDS}${id}/`, RECORD), enabled: id > 0 && isTold, retry: false })
  // A component gets its input once, so it waits for the record.
  if (read.isLoading) return null
  const beside = id > 0 ? { id, record: read.data?.instance ?? {} } : undefined
  return (
    <BesideRecord value={beside}>
      <AnswerForm task={task} />
    </BesideRecord>
  )
}

function AnswerForm({ task }: { task: Instance }) {
  const form = formOf(task)
  const questions = isUpdate(form) ? [] : questionsIn(form)
  const inputFields = isUpdate(form) ? recordFieldsOf(form) : questions.map(fieldOf)
  const [before] = useState<Fields>(() => {
    if (isUpdate(form)) return editable((form.values ?? {}) as Fields, inputFields)
    const answers = (task.response ?? {}) as Fields
    return Object.fromEntries(questions.map((question) => [question.name, shownOf(question, answers[question.name])]))
  })
  const go = useGo()
  const [values, setValues] = useState(before)
  const [comment, setComment] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  // A question may be called as the comment is.
  const commentName = inputFields.some(({ alias }) => alias === NAME) ? '_comment' : NAME
  const comments: Field[] =
    form.allow_comment === true ? [{ alias: commentName, type: 'text', required: false, label: t('task.comment') }] : []
  const complete = async () => {
    const answers = Object.fromEntries(
      questions.map((question) => [question.name, answerOf(question, values[question.name])]),
    )
    const lacking = missing(questions, answers)
    if (lacking.length > 0) return setError(refusal(lacking, t('required')))
    setIsBusy(true)
    try {
      // Unchanged values are not written, so that changes of others remain.
      const response = isUpdate(form) ? { fields: changed(before, values) } : answers
      await performStep(task, 'complete', { response, ...(comment && { comment }) })
    } catch (refused) {
      setError(within(refused, 'response', 'fields'))
      setIsBusy(false)
    }
  }
  const inputs = Object.fromEntries(
    inputFields.map(({ alias }) => [alias, isUpdate(form) ? RecordFormInput : QuestionInput]),
  )
  const isChanged = comment !== '' || Object.keys(changed(before, values)).length > 0
  return (
    <Form
      fields={[...inputFields, ...comments]}
      sections={[]}
      values={{ ...values, ...(comments.length > 0 && { [commentName]: comment }) }}
      instance={{ _meta: { labels: form.labels ?? {} } } as unknown as Instance}
      inputs={inputs}
      error={error}
      isBusy={isBusy}
      isChanged={isChanged}
      submit={t('task.complete')}
      onChange={(alias, value) => {
        if (alias === commentName && comments.length > 0) setComment(`${value ?? ''}`)
        else setValues((now) => ({ ...now, [alias]: value }))
      }}
      onSubmit={() => void complete()}
      onCancel={() => {
        if (!isChanged) return go('/tasks')
        setValues(before)
        setComment('')
        setError(undefined)
      }}
    />
  )
}

/** An answer, for reading. */
export function Answered({ task }: { task: Instance }) {
  const form = formOf(task)
  const response = (task.response ?? null) as Fields | null
  if (response === null) return null
  const rows: [string, Field | undefined, Json][] = isUpdate(form)
    ? Object.entries((response.fields ?? {}) as Fields).map(([alias, value]) => [
        alias,
        recordFieldsOf(form).find((field) => field.alias === alias),
        value,
      ])
    : Object.entries(response).map(([name, value]) => {
        const question = questionsIn(form).find((each) => each.name === name)
        return [name, question && fieldOf(question), question ? shownOf(question, value) : value]
      })
  return (
    <section className={generic.section} aria-label={t('task.answered')}>
      <h2>{t('task.answered')}</h2>
      <dl className={generic.facts}>
        {rows.map(([name, field, value]) => (
          <div key={name} className={generic.fact}>
            <dt>{field ? labelOf(field) : name}</dt>
            <dd>
              <Shown field={field} value={value} />
            </dd>
          </div>
        ))}
        {typeof task.comment === 'string' && task.comment && (
          <div className={generic.fact}>
            <dt>{t('task.comment')}</dt>
            <dd>{task.comment}</dd>
          </div>
        )}
      </dl>
    </section>
  )
}

function Shown({ field, value }: { field: Field | undefined; value: Json }) {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0))
    return <span className={generic.none}>{t('none')}</span>
  const files = Array.isArray(value) ? value.flatMap((item) => (item as Fields | null)?.file ?? []) : []
  if (files.length > 0) {
    return (
      <span className={look.files}>
        {files.map((id) => (
          <Button
            key={`${id}`}
            icon="download"
            onPress={() => void saveFile(`${FILES}${id}/`, t('files.unnamed')).catch(sayError)}
          >
            {t('download')}
          </Button>
        ))}
      </span>
    )
  }
  return <Value type={field?.type ?? 'string'} values={field?.values} value={value} />
}
