// Performs a step of a task, after a dialog for the values that it needs.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { instance as instanceQuery, invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Field, Fields, Instance } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import { FormDialog } from '../../generic/form-dialog.tsx'
import { Confirmation } from '../../kit/dialogs.tsx'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'
import type { Step } from './steps.ts'

export const TASKS = '/api/tasks/'

export async function performStep(task: Instance, step: Step, body: Fields = {}) {
  const { data } = await call<Instance>('POST', `${TASKS}${task.id}/${step}/`, { body })
  say(t(`task.${step}.done`))
  await invalidate(TASKS)
  return data
}

export interface StepProps {
  task: Instance
  step: Exclude<Step, 'complete'>
  onDone: () => void
}

export function StepDialog(props: StepProps) {
  return props.step === 'approve' || props.step === 'reject' ? <Decision {...props} /> : <Question {...props} />
}

function useTaking({ task, step, onDone }: StepProps) {
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const run = async (body?: Fields) => {
    setIsBusy(true)
    try {
      await performStep(task, step, body)
      onDone()
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  return { error, isBusy, run }
}

function Question(props: StepProps) {
  const { task, step, onDone } = props
  const { error, isBusy, run } = useTaking(props)
  return (
    <Confirmation
      title={t('ask', { action: t(`task.${step}`), name: `${task.name}` })}
      text={t(step === 'cancel' ? 'task.cancel.question' : 'task.reopen.question')}
      action={t(`task.${step}`)}
      isOpen
      isBusy={isBusy}
      onConfirm={() => void run()}
      onClose={onDone}
    >
      {error !== undefined && <Failure error={error} />}
    </Confirmation>
  )
}

/** The decision about a task: one of the template's conditions, if it has any, and a comment. */
function Decision(props: StepProps) {
  const { task, step, onDone } = props
  const { error, isBusy, run } = useTaking(props)
  const [values, setValues] = useState<Fields>({})
  const { data } = useQuery({ ...instanceQuery(`${TASKS}${task.id}/`), enabled: task.form === undefined })
  const form = (task.form ?? data?.instance.form) as Fields | undefined
  if (!form) return null
  const conditions = (Array.isArray(form.approval_conditions) ? form.approval_conditions : []) as { name: string }[]
  const condition: Field = {
    alias: 'condition',
    type: 'enum',
    required: true,
    label: t('task.condition'),
    values: conditions.map(({ name }) => ({ value: name, text: name })),
  }
  const comment: Field = { alias: 'comment', type: 'text', required: false, label: t('task.comment') }
  const fields = [...(conditions.length > 0 ? [condition] : []), ...(form.allow_comment === true ? [comment] : [])]
  return (
    <FormDialog
      title={t('ask', { action: t(`task.${step}`), name: `${task.name}` })}
      isWide={false}
      fields={fields}
      sections={[]}
      values={values}
      error={error}
      isBusy={isBusy}
      isChanged={Object.keys(values).length > 0}
      submit={t(`task.${step}`)}
      onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
      onSubmit={() => void run({ ...values, ...(values.comment === '' && { comment: null }) })}
      onDone={onDone}
    />
  )
}
