// The designer of a task's questions.

import { useState } from 'react'
import type { Field, Fields, Json, Use } from '../../api/shapes.ts'
import { changed } from '../../generic/changes.ts'
import { FormDialog } from '../../generic/form-dialog.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import type { InputProps, Inputs } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import { Dialog } from '../../kit/dialogs.tsx'
import { Chooser, Fieldset, Select, TextField } from '../../kit/fields.tsx'
import { Tag } from '../../kit/values.tsx'
import { invalidParameters, withoutEmpty } from '../../shared/components/parameters.ts'
import look from '../../shared/designer.module.css'
import { useComponentChoices, useParameterFields } from '../../shared/forms/component-choices.ts'
import {
  aliasesOf,
  fieldOf,
  QUESTION_TYPES,
  type Question,
  type QuestionType,
  questionsOf,
} from '../../shared/forms/questions.ts'
import { RecordInput } from '../../shared/forms/record-input.tsx'
import { refusal } from '../../shared/forms/refusals.ts'
import { valueFrom } from '../../shared/option-values.ts'
import { Options } from '../../shared/options.tsx'
import { moved } from '../../shared/positions.ts'
import { type Key, t } from '../../texts.ts'

const MOST = 500

const typeName = (type: QuestionType) => t(`question-type.${type}`)

function Type({ name, value, onChange }: InputProps) {
  return (
    <Select
      name={name}
      label={t('question.type')}
      isRequired
      value={(value as string | null) ?? 'text'}
      choices={QUESTION_TYPES.map((type) => ({ value: type, text: typeName(type) }))}
      onChange={onChange}
    />
  )
}

const USES: Use[] = ['task_template_form']

function Component({ field, name, value, onChange }: InputProps) {
  const components = useComponentChoices(USES)
  if (components.length === 0 && value === null) return null
  return (
    <Chooser
      name={name}
      label={field.label ?? ''}
      hint={field.description}
      choices={components}
      value={typeof value === 'number' ? value : null}
      onChange={(choice) => onChange(choice?.value ?? null)}
    />
  )
}

const INPUTS: Inputs = { type: Type, options: Options, component: Component }

const plain = (alias: string, type: string, label: Key, required = false, description?: Key): Field => ({
  alias,
  type,
  required,
  label: t(label),
  ...(description && { description: t(description) }),
})

const isChoice = (type: Json | undefined) => type === 'choice' || type === 'choices'

const fieldsOf = (values: Fields, parameters: Field[]): Field[] => [
  plain('label', 'text', 'question.label', true),
  plain('type', 'string', 'question.type', true),
  ...(isChoice(values.type) ? [plain('options', 'json', 'field.options', true, 'question.options.hint')] : []),
  ...(values.type === 'boolean' ? [] : [plain('required', 'boolean', 'question.required')]),
  plain('help', 'text', 'question.help'),
  // A component cannot send files.
  ...(values.type === 'file'
    ? []
    : [plain('component', 'integer', 'question.component', false, 'question.component.hint'), ...parameters]),
  ...(typeof values.component === 'number' && values.type !== 'file'
    ? [plain('fields', 'string', 'question.fields', false, 'question.fields.hint')]
    : []),
  plain('name', 'string', 'question.name', false, 'question.name.hint'),
]

/** Returns an unused name. */
function free(label: string, taken: string[]): string {
  const base = valueFrom(label) || 'question'
  let name = base
  for (let n = 2; taken.includes(name); n++) name = `${base}_${n}`
  return name
}

function QuestionDialog({
  question,
  usedNames,
  onSave,
  onDone,
}: {
  question: Question | undefined
  usedNames: string[]
  onSave: (question: Fields) => void
  onDone: () => void
}) {
  const [before] = useState<Fields>(() => {
    const { custom, ...stored } = question ?? { type: 'text' as const, custom: undefined }
    const asked = custom && {
      component: custom.component,
      parameters: custom.parameters,
      fields: (custom.fields ?? []).join(', '),
    }
    return { ...(stored as unknown as Fields), ...asked }
  })
  const [values, setValues] = useState(before)
  const [error, setError] = useState<unknown>()
  const parameters = useParameterFields(values.type === 'file' ? null : values.component)
  const save = () => {
    const { label = '', name = '', type, options, required, help, component } = values
    const parameterValues = withoutEmpty(values.parameters)
    const wrong = invalidParameters(parameters[0]?.schema ?? [], parameterValues)
    const choices = (Array.isArray(options) ? options : []).filter((option) => (option as Fields).value) as Fields[]
    if (`${label}`.trim() === '') return setError(refusal(['label'], t('required')))
    if (isChoice(type) && choices.length === 0) return setError(refusal(['options'], t('required')))
    if (usedNames.includes(`${name}`)) return setError(refusal(['name'], t('question.name.taken')))
    if (wrong.length > 0)
      return setError(
        refusal(
          wrong.map((one) => `parameters.${one}`),
          t('forms.item.unfit'),
        ),
      )
    const isAsked = typeof component === 'number' && type !== 'file'
    const named = aliasesOf(`${values.fields ?? ''}`.split(/[\s,]+/).filter(Boolean))
    onSave({
      name: name || free(`${label}`, usedNames),
      label,
      type: type ?? 'text',
      ...(isChoice(type) && {
        options: choices.map(({ value, text }) => ({ value: value ?? '', text: text || value || '' })),
      }),
      ...(required === true && { required }),
      ...(help && { help }),
      ...(isAsked && {
        component,
        ...(Object.keys(parameterValues).length > 0 && { parameters: parameterValues }),
        ...(named.length > 0 && { fields: named }),
      }),
    })
    onDone()
  }
  return (
    <FormDialog
      title={question ? question.label : t('question.new')}
      fields={fieldsOf(values, parameters)}
      sections={[]}
      values={values}
      inputs={INPUTS}
      error={error}
      isBusy={false}
      isChanged={Object.keys(changed(before, values)).length > 0}
      submit={t('question.take')}
      onChange={(alias, value) =>
        // Another component has other parameters.
        setValues((now) => ({ ...now, ...(alias === 'component' && { parameters: null }), [alias]: value }))
      }
      onSubmit={save}
      onDone={onDone}
    />
  )
}

/** The configuration of a task with questions. */
export function Questions({
  name,
  value,
  onChange,
}: {
  name: string
  value: Fields
  onChange: (value: Fields) => void
}) {
  const [edited, setEdited] = useState<number | 'new' | undefined>()
  const [isShown, setIsShown] = useState(false)
  const questions = questionsOf(value) ?? []
  const set = (list: Fields[]) => onChange({ ...value, questions: list })
  // The stored members of a question that this designer does not know remain.
  const stored = questions.map((question) => {
    const list = Array.isArray(value.questions) ? (value.questions as Fields[]) : []
    return list.find((one) => one?.name === question.name) ?? (question as unknown as Fields)
  })
  const applyQuestion = (question: Fields) => {
    if (edited === 'new') set([...stored, question])
    else if (edited !== undefined) {
      const { options, required, help, component, parameters, fields, ...kept } = stored[edited] ?? {}
      set(stored.with(edited, { ...kept, ...question }))
    }
  }
  const at = typeof edited === 'number' ? questions[edited] : undefined
  return (
    <>
      <TextField
        name={`${name}.instructions`}
        label={t('task.instructions')}
        isLong
        value={typeof value.instructions === 'string' ? value.instructions : ''}
        onChange={(instructions) => onChange({ ...value, instructions })}
      />
      <Fieldset name={name} label={t('questions')} hint={t('questions.hint')}>
        <Ordered
          label={t('questions')}
          items={questions}
          keyOf={(question) => question.name}
          nameOf={(question) => question.label}
          onMove={(from, to) => set(moved(stored, from, to))}
        >
          {(question, n) => (
            <div className={look.field}>
              <div className={look.what}>
                <strong>{question.label}</strong> <code>{question.name}</code>
                <div className={look.rules}>
                  <Tag>{typeName(question.type)}</Tag>
                  {question.options.length > 0 && <span>{t('rule.options', { count: question.options.length })}</span>}
                  {question.required && <span>{t('flag.required')}</span>}
                </div>
              </div>
              <span className={look.buttons}>
                <Button
                  look="quiet"
                  icon="pencil"
                  aria-label={t('edit-one', { name: question.label })}
                  onPress={() => setEdited(n)}
                />
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('remove-one', { name: question.label })}
                  onPress={() => set(stored.toSpliced(n, 1))}
                />
              </span>
            </div>
          )}
        </Ordered>
        <div className={look.links}>
          <Button icon="plus" isDisabled={questions.length >= MOST} onPress={() => setEdited('new')}>
            {t('question.new')}
          </Button>
          {questions.length > 0 && <Button onPress={() => setIsShown(true)}>{t('preview')}</Button>}
        </div>
        {edited !== undefined && (
          <QuestionDialog
            question={at}
            usedNames={questions.flatMap((question) => (question === at ? [] : question.name))}
            onSave={applyQuestion}
            onDone={() => setEdited(undefined)}
          />
        )}
        {isShown && <QuestionPreview questions={questions} onClose={() => setIsShown(false)} />}
      </Fieldset>
    </>
  )
}

export function QuestionPreview({ questions, onClose }: { questions: Question[]; onClose: () => void }) {
  const [values, setValues] = useState<Fields>({})
  return (
    <Dialog title={t('preview')} isOpen isWide onClose={onClose}>
      <div className={look.preview}>
        {questions.map((question) => (
          <RecordInput
            key={question.name}
            field={fieldOf(question)}
            name={question.name}
            value={values[question.name]}
            onChange={(value) => setValues({ ...values, [question.name]: value })}
          />
        ))}
      </div>
      <div>
        <Button look="primary" onPress={onClose}>
          {t('close')}
        </Button>
      </div>
    </Dialog>
  )
}
