// The sections and items of a form, put in order, changed, taken away and added.

import { memo, useState } from 'react'
import type { Choice, Field, Fields, Json, Use } from '../../api/shapes.ts'
import { changed } from '../../generic/changes.ts'
import { FormDialog } from '../../generic/form-dialog.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import { Button } from '../../kit/buttons.tsx'
import { Chooser } from '../../kit/fields.tsx'
import { invalidParameters, withoutEmpty } from '../../shared/components/parameters.ts'
import { useComponentChoices, useParameterFields } from '../../shared/forms/component-choices.ts'
import { aliasesIn, kindOf, type Section } from '../../shared/forms/configuration.ts'
import look from '../../shared/forms/forms.module.css'
import { refusal } from '../../shared/forms/refusals.ts'
import { moved } from '../../shared/positions.ts'
import { labelOf, t } from '../../texts.ts'

type ItemKind = NonNullable<ReturnType<typeof kindOf>>

/** The fields whose values a condition can name. */
const choosable = (fields: Field[]) => fields.filter(({ type, values }) => values || type === 'boolean')

/** The places that offer a component for forms that create records. It needs one of them. */
const USES: Use[] = ['object_class_standalone_form', 'object_class_create_form']

const nameOf = (item: Fields, fields: Field[]): string => {
  const kind = kindOf(item)
  if (kind === 'text') return `${item.text}`
  if (typeof item.label === 'string' && item.label) return item.label
  if (kind === 'component') return t('forms.component', { name: `${item.component}` })
  const field = fields.find(({ alias }) => alias === item.field)
  return field ? labelOf(field) : `${item.field}`
}

const titleOf = ({ title }: Section) => title || t('forms.untitled')

/** The subject of the dialog: a section, an item by its index, or a text to add. */
interface Edited {
  section: number
  item?: number | 'text'
}

interface DesignerProps {
  sections: Section[]
  fields: Field[]
  onChange: (sections: Section[]) => void
}

export const Designer = memo(function Designer({ sections, fields, onChange }: DesignerProps) {
  const [edited, setEdited] = useState<Edited | undefined>()
  const inputs = aliasesIn(sections)
  const unusedFields = fields.filter(({ alias }) => !inputs.includes(alias))
  const put = (n: number, change: Partial<Section>) =>
    onChange(sections.with(n, { ...(sections[n] as Section), ...change }))
  const components = useComponentChoices(USES)
  const dialog = { sections, fields, unusedFields, onDone: () => setEdited(undefined) }
  return (
    <>
      <Ordered
        label={t('forms.sections')}
        items={sections}
        keyOf={(_, n) => `${n}`}
        nameOf={titleOf}
        onMove={(from, to) => onChange(moved(sections, from, to))}
      >
        {(section, n) => (
          <SectionBlock
            section={section}
            index={n}
            fields={fields}
            unusedFields={unusedFields}
            components={components}
            onChange={(change) => put(n, change)}
            onRemove={() => onChange(sections.toSpliced(n, 1))}
            onEdit={(item) => setEdited({ section: n, ...(item !== undefined && { item }) })}
          />
        )}
      </Ordered>
      <div>
        <Button
          icon="plus"
          onPress={() => onChange([...sections, { title: '', text: '', when: undefined, items: [] }])}
        >
          {t('forms.add-section')}
        </Button>
      </div>
      {edited && <EditDialog {...dialog} edited={edited} onChange={onChange} />}
    </>
  )
})

interface SectionBlockProps {
  section: Section
  index: number
  fields: Field[]
  /** The fields that the form does not ask for yet. */
  unusedFields: Field[]
  components: Choice[]
  onChange: (change: Partial<Section>) => void
  onRemove: () => void
  /** Opens the dialog of an item, of a text to add, or of the section itself. */
  onEdit: (item?: number | 'text') => void
}

/** A section with its items, and the choices that add items to it. */
function SectionBlock(props: SectionBlockProps) {
  const { section, index, fields, unusedFields, components, onChange, onRemove, onEdit } = props
  const { items, when } = section
  const name = titleOf(section)
  return (
    <div className={look.block}>
      <div className={look.line}>
        <h3>{name}</h3>
        <Button look="quiet" icon="pencil" aria-label={t('edit-one', { name })} onPress={() => onEdit()} />
        <Button look="quiet" icon="trash-2" aria-label={t('remove-one', { name })} onPress={onRemove} />
      </div>
      {when && (
        <p className={look.quiet}>
          {t('forms.when', { field: nameOf({ field: when.field }, fields), values: when.in.map(String).join(', ') })}
        </p>
      )}
      <div className={look.items}>
        <Ordered
          label={t('forms.items', { name })}
          items={items}
          keyOf={(item, at) => `${item.field ?? at}`}
          nameOf={(item) => nameOf(item, fields)}
          onMove={(from, to) => onChange({ items: moved(items, from, to) })}
        >
          {(item, at) => (
            <ItemLine
              item={item}
              name={nameOf(item, fields)}
              onEdit={() => onEdit(at)}
              onRemove={() => onChange({ items: items.toSpliced(at, 1) })}
            />
          )}
        </Ordered>
      </div>
      <div className={look.adding}>
        <Chooser
          isAdding
          name={`add-field-${index}`}
          label={t('record-fields.add')}
          isRequired
          choices={unusedFields.map((field) => ({ value: field.alias, text: labelOf(field) }))}
          value={null}
          onChange={(choice) => choice && onChange({ items: [...items, { field: `${choice.value}` }] })}
        />
        <Button onPress={() => onEdit('text')}>{t('forms.add-text')}</Button>
      </div>
      {components.length > 0 && (
        <Chooser
          isAdding
          name={`add-component-${index}`}
          label={t('forms.add-component')}
          isRequired
          choices={components}
          value={null}
          onChange={(choice) => {
            if (!choice) return
            onChange({ items: [...items, { component: choice.value, label: choice.text }] })
            onEdit(items.length)
          }}
        />
      )}
    </div>
  )
}

interface ItemLineProps {
  item: Fields
  name: string
  onEdit: () => void
  onRemove: () => void
}

const ItemLine = ({ item, name, onEdit, onRemove }: ItemLineProps) => (
  <div className={look.line}>
    <span>
      {name}{' '}
      <span className={look.quiet}>
        {kindOf(item) !== 'field' && t(`forms.kind.${kindOf(item) ?? 'text'}`)}
        {kindOf(item) === 'component' && typeof item.field === 'string' && ', '}
        {typeof item.field === 'string' && item.field}
        {item.required === true && `, ${t('flag.required')}`}
        {item.width === 'half' && `, ${t('forms.half')}`}
      </span>
    </span>
    <Button look="quiet" icon="pencil" aria-label={t('edit-one', { name })} onPress={onEdit} />
    <Button look="quiet" icon="trash-2" aria-label={t('remove-one', { name })} onPress={onRemove} />
  </div>
)

interface EditDialogProps extends DesignerProps {
  edited: Edited
  unusedFields: Field[]
  onDone: () => void
}

/** The dialog of the section or the item that is edited. */
function EditDialog({ edited, sections, fields, unusedFields, onChange, onDone }: EditDialogProps) {
  const section = sections[edited.section]
  if (!section) return null
  if (edited.item === undefined) {
    const save = (change: Partial<Section>) => onChange(sections.with(edited.section, { ...section, ...change }))
    return <SectionDialog section={section} fields={choosable(fields)} onSave={save} onDone={onDone} />
  }
  const isAdded = edited.item === 'text'
  const item = isAdded ? { text: '' } : (section.items[Number(edited.item)] ?? {})
  const save = (changed: Fields, to: number) => {
    const others = isAdded ? section.items : section.items.toSpliced(Number(edited.item), 1)
    const place = isAdded ? others.length : Number(edited.item)
    onChange(
      sections.map((each, n) => {
        if (n === to && n === edited.section) return { ...each, items: others.toSpliced(place, 0, changed) }
        if (n === edited.section) return { ...each, items: others }
        return n === to ? { ...each, items: [...each.items, changed] } : each
      }),
    )
  }
  return (
    <ItemDialog
      item={item}
      title={isAdded ? t('forms.add-text') : nameOf(item, fields)}
      sections={sections.map(titleOf)}
      at={edited.section}
      fields={unusedFields}
      allFields={fields}
      onSave={save}
      onDone={onDone}
    />
  )
}

function useDraft(first: Fields) {
  const [before] = useState(first)
  const [values, setValues] = useState(first)
  return {
    values,
    isChanged: Object.keys(changed(before, values)).length > 0,
    onChange: (alias: string, value: Json) => setValues((now) => ({ ...now, [alias]: value })),
  }
}

function SectionDialog({
  section,
  fields,
  onSave,
  onDone,
}: {
  section: Section
  fields: Field[]
  onSave: (change: Partial<Section>) => void
  onDone: () => void
}) {
  const draft = useDraft({
    title: section.title,
    text: section.text,
    field: section.when?.field ?? null,
    in: (section.when?.in ?? []).map((value) => (typeof value === 'boolean' ? `${value}` : value)),
  })
  const chosen = fields.find(({ alias }) => alias === draft.values.field)
  const isBoolean = chosen?.type === 'boolean'
  const values = isBoolean
    ? [
        { value: 'true', text: t('yes') },
        { value: 'false', text: t('no') },
      ]
    : (chosen?.values ?? [])
  const inputs: Field[] = [
    { alias: 'title', type: 'string', required: false, label: t('forms.section.title') },
    { alias: 'text', type: 'text', required: false, label: t('forms.section.text') },
    {
      alias: 'field',
      type: 'enum',
      required: false,
      label: t('forms.section.when'),
      description: t('forms.section.when.hint'),
      values: fields.map((field) => ({ value: field.alias, text: labelOf(field) })),
    },
    ...(chosen ? [{ alias: 'in', type: 'set', required: true, label: t('forms.section.in'), values }] : []),
  ]
  const save = () => {
    const { title, text, field } = draft.values
    const list = (Array.isArray(draft.values.in) ? draft.values.in : []).filter((value) =>
      values.some((one) => one.value === value),
    )
    const when = chosen
      ? { field: `${field}`, in: isBoolean ? list.map((value) => value === 'true') : list }
      : undefined
    onSave({ title: `${title ?? ''}`, text: `${text ?? ''}`, when })
    onDone()
  }
  return (
    <FormDialog
      {...draft}
      title={section.title || t('forms.untitled')}
      fields={inputs}
      sections={[]}
      error={undefined}
      isBusy={false}
      submit={t('question.take')}
      onSubmit={save}
      onDone={onDone}
    />
  )
}

const placeField = (sections: string[]): Field => ({
  alias: 'section',
  type: 'enum',
  required: true,
  label: t('forms.item.section'),
  values: sections.map((text, n) => ({ value: n, text: `${n + 1}. ${text}` })),
})

/** The inputs of the dialog of an item. `fillable`: the fields that a component may fill in. */
function itemFields(kind: ItemKind, fillable: Field[], isFilling: boolean, parameters: Field[]): Field[] {
  const label = {
    alias: 'label',
    type: 'string',
    required: false,
    label: t('field.label'),
    description: kind === 'field' ? t('forms.item.label.hint') : undefined,
  } as Field
  const width: Field = {
    alias: 'width',
    type: 'enum',
    required: true,
    label: t('forms.item.width'),
    values: [
      { value: 'full', text: t('forms.full') },
      { value: 'half', text: t('forms.half') },
    ],
  }
  const filled: Field[] = [
    { alias: 'help', type: 'text', required: false, label: t('question.help') },
    { alias: 'required', type: 'boolean', required: false, label: t('question.required') },
  ]
  if (kind === 'text') return [{ alias: 'text', type: 'text', required: true, label: t('forms.kind.text') }]
  if (kind === 'field') return [label, ...filled, width]
  const fills: Field = {
    alias: 'field',
    type: 'enum',
    required: false,
    label: t('forms.item.fills'),
    description: t('forms.item.fills.hint'),
    values: fillable.map((field) => ({ value: field.alias, text: labelOf(field) })),
  }
  return [label, fills, ...(isFilling ? filled : []), ...parameters, width]
}

function ItemDialog({
  item,
  title,
  sections,
  at,
  fields,
  allFields,
  onSave,
  onDone,
}: {
  item: Fields
  title: string
  sections: string[]
  at: number
  /** The fields that the form does not ask for yet. */
  fields: Field[]
  allFields: Field[]
  onSave: (item: Fields, section: number) => void
  onDone: () => void
}) {
  const kind = kindOf(item) ?? 'text'
  const draft = useDraft({ ...item, width: item.width ?? 'full', section: at })
  const parameters = useParameterFields(item.component)
  const [error, setError] = useState<unknown>()
  // A component may fill in its own field and unused fields. It cannot send files.
  const fillable = allFields.filter(
    (field) =>
      field.type !== 'file' && field.type !== 'document' && (fields.includes(field) || field.alias === item.field),
  )
  const inputs = [
    ...itemFields(kind, fillable, Boolean(draft.values.field), parameters),
    ...(sections.length > 1 ? [placeField(sections)] : []),
  ]
  const save = () => {
    const { section, width: wide, parameters: typed, ...item } = draft.values
    const parameterValues = withoutEmpty(typed)
    const wrong = invalidParameters(parameters[0]?.schema ?? [], parameterValues)
    if (wrong.length > 0)
      return setError(
        refusal(
          wrong.map((name) => `parameters.${name}`),
          t('forms.item.unfit'),
        ),
      )
    const all: Fields = { ...item, ...(Object.keys(parameterValues).length > 0 && { parameters: parameterValues }) }
    const members = Object.entries(all).filter(([, value]) => value !== '' && value !== null && value !== false)
    if (kind === 'text' && !item.text) return onDone()
    onSave({ ...Object.fromEntries(members), ...(wide === 'half' && { width: wide }) }, Number(section))
    onDone()
  }
  return (
    <FormDialog
      {...draft}
      title={title}
      fields={inputs}
      sections={[]}
      error={error}
      isBusy={false}
      submit={t('question.take')}
      onSubmit={save}
      onDone={onDone}
    />
  )
}
