// Dates, with or without times, typed as a text or chosen from a calendar.

import {
  type CalendarDate,
  fromAbsolute,
  now,
  parseDate,
  setLocalTimeZone,
  Time,
  toCalendarDate,
  toCalendarDateTime,
  today,
  toTime,
  toZoned,
} from '@internationalized/date'
import { type KeyboardEvent, useContext, useRef, useState } from 'react'
import {
  Calendar,
  CalendarCell,
  CalendarGrid,
  CalendarGridBody,
  CalendarGridHeader,
  CalendarHeaderCell,
  Dialog,
  DialogTrigger,
  Heading,
  Input,
  Button as KitButton,
  TextField as KitTextField,
  Popover,
} from 'react-aria-components'
import { type Key, t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import look from './date-field.module.css'
import { type DateProps, hintOf } from './date-field.tsx'
import { Below, Caption } from './fields.tsx'
import { Icon } from './icons.tsx'
import { Layer } from './keys.ts'
import { MessagesContext, useHold } from './messages.ts'
import { type DateKind, shownDate, typedDate } from './typed-date.ts'

/** The day and the time of a value in a time zone; undefined if it is invalid. */
function dayAndTime(value: string, { hasTime, zone }: DateKind): { day: CalendarDate; time: Time } | undefined {
  try {
    if (!hasTime) return { day: parseDate(value.slice(0, 10)), time: new Time() }
    const milliseconds = Date.parse(value)
    if (Number.isNaN(milliseconds)) return undefined
    const at = fromAbsolute(milliseconds, zone)
    return { day: toCalendarDate(at), time: toTime(at) }
  } catch {
    return undefined
  }
}

const written = (day: CalendarDate, time: Time, { hasTime, zone }: DateKind) =>
  hasTime ? toZoned(toCalendarDateTime(day, time), zone).toAbsoluteString() : day.toString()

/** The text of a field, and the value that it represents. */
function useTyping({ name, value, onChange, hasTime = false, zone }: DateProps) {
  const kind = { hasTime, zone }
  const [text, setText] = useState(() => shownDate(value, kind))
  /** The value of the text. A different value from outside replaces both. */
  const [emitted, setEmitted] = useState(value)
  /** The last value from outside, which may be more precise than its text. */
  const [outerValue, setOuterValue] = useState(value)
  const [oldYear, setOldYear] = useState<number | undefined>()
  const [isLeft, setIsLeft] = useState(false)
  if (value !== emitted) {
    setEmitted(value)
    setOuterValue(value)
    setText(shownDate(value, kind))
  }
  const meaning = (typed: string, year = oldYear) =>
    typed === shownDate(outerValue, kind) ? { value: outerValue || null } : typedDate(typed, { ...kind, oldYear: year })
  const emit = (typed: ReturnType<typeof meaning>) => {
    if (!('value' in typed) || (typed.value ?? '') === emitted) return
    setEmitted(typed.value ?? '')
    onChange(typed.value)
  }
  const typed = meaning(text)
  const flaw = 'flaw' in typed ? typed : undefined
  const message = flaw && t(flawKey(flaw.flaw, hasTime), flaw.flaw === 'old' ? { year: flaw.year } : {})
  // A text that is not a date changes nothing, so the form must not be sent as if it did.
  useHold(name, message)
  return {
    text,
    flaw,
    message: isLeft ? message : undefined,
    type: (changed: string) => {
      setText(changed)
      setIsLeft(false)
      emit(meaning(changed))
    },
    choose: (chosen: string | null) => {
      setText(chosen === null ? '' : shownDate(chosen, kind))
      setIsLeft(false)
      emit({ value: chosen })
    },
    /** Confirms a year before 1900. */
    confirm: (year: number) => {
      setOldYear(year)
      emit(meaning(text, year))
    },
    leave: () => {
      setIsLeft(true)
      if ('value' in typed) setText(shownDate(typed.value ?? '', kind))
    },
  }
}

const flawKey = (flaw: 'half' | 'none' | 'old', hasTime: boolean): Key =>
  flaw === 'half' && hasTime ? 'date.half.time' : `date.${flaw}`

export function Picker(props: DateProps) {
  const { name, label, value, hasTime = false, zone, isDisabled = false, isReadOnly = false } = props
  const kind = { hasTime, zone }
  // The calendar marks today in the zone of the account, not in that of the device.
  setLocalTimeZone(zone)
  const { text, flaw, message, type, choose, confirm, leave } = useTyping(props)
  const [isOpen, setIsOpen] = useState(false)
  const anchor = useRef<HTMLDivElement>(null)
  const outer = useContext(MessagesContext)
  const messages = message === undefined ? outer : { ...outer, [name]: message }
  const close = (chosen: string | null) => {
    choose(chosen)
    setIsOpen(false)
  }
  const openByKey = (event: KeyboardEvent) => {
    if (!event.altKey || event.key !== 'ArrowDown' || isDisabled || isReadOnly) return
    event.preventDefault()
    setIsOpen(true)
  }
  return (
    <MessagesContext value={messages}>
      <KitTextField
        className={css.field ?? ''}
        data-field={name}
        name={name}
        value={text}
        onChange={type}
        onBlur={leave}
        isRequired={props.isRequired ?? false}
        isDisabled={isDisabled}
        isReadOnly={isReadOnly}
        isInvalid={messages[name] !== undefined}
        autoComplete="off"
        validationBehavior="aria"
      >
        <Caption {...props} />
        <DialogTrigger isOpen={isOpen} onOpenChange={setIsOpen}>
          <div ref={anchor} className={`${css.group} ${look.group}`}>
            <Input
              className={css.input ?? ''}
              placeholder={t(hasTime ? 'date.pattern.time' : 'date.pattern')}
              onKeyDown={openByKey}
            />
            <KitButton
              className={`${css.button} ${css.icon}`}
              aria-label={t('date.calendar', { label })}
              isDisabled={isDisabled || isReadOnly}
            >
              <Icon name="calendar" />
            </KitButton>
          </div>
          <Popover className={css.popover ?? ''} triggerRef={anchor} placement="bottom start">
            <Dialog className={look.dialog ?? ''} aria-label={t('date.calendar', { label })}>
              <Layer>
                <Choice value={value} kind={kind} canClear={!props.isRequired && text !== ''} onChoose={close} />
              </Layer>
            </Dialog>
          </Popover>
        </DialogTrigger>
        <Below name={name} hint={hintOf(props)} />
        {flaw?.flaw === 'old' && (
          <div>
            <Button onPress={() => confirm(flaw.year)}>{t('date.old.yes', { year: flaw.year })}</Button>
          </div>
        )}
      </KitTextField>
    </MessagesContext>
  )
}

/** The calendar: the days of a month, today or the current minute, and no value. */
function Choice({
  value,
  kind,
  canClear,
  onChoose,
}: {
  value: string
  kind: DateKind
  canClear: boolean
  onChoose: (value: string | null) => void
}) {
  const at = dayAndTime(value, kind)
  return (
    <>
      <Month
        day={at?.day ?? null}
        zone={kind.zone}
        onChoose={(day) => onChoose(written(day, at?.time ?? new Time(), kind))}
      />
      <div className={look.ends}>
        <Button look="quiet" onPress={() => onChoose(current(kind))}>
          {t(kind.hasTime ? 'date.now' : 'date.today')}
        </Button>
        {canClear && (
          <Button look="quiet" onPress={() => onChoose(null)}>
            {t('date.clear')}
          </Button>
        )}
      </div>
    </>
  )
}

/** Today, or this minute. */
const current = ({ hasTime, zone }: DateKind) =>
  hasTime ? now(zone).set({ second: 0, millisecond: 0 }).toAbsoluteString() : today(zone).toString()

const Month = ({
  day,
  zone,
  onChoose,
}: {
  day: CalendarDate | null
  zone: string
  onChoose: (day: CalendarDate) => void
}) => (
  <Calendar value={day} defaultFocusedValue={day ?? today(zone)} onChange={onChoose} autoFocus>
    <div className={look.month}>
      <KitButton slot="previous" className={`${css.button} ${css.quiet} ${css.icon}`}>
        <Icon name="chevron-left" />
      </KitButton>
      <Heading className={look.title ?? ''} />
      <KitButton slot="next" className={`${css.button} ${css.quiet} ${css.icon}`}>
        <Icon name="chevron-right" />
      </KitButton>
    </div>
    <CalendarGrid className={look.grid ?? ''} weekdayStyle="narrow">
      <CalendarGridHeader>
        {(weekday) => <CalendarHeaderCell className={look.weekday ?? ''}>{weekday}</CalendarHeaderCell>}
      </CalendarGridHeader>
      <CalendarGridBody>{(date) => <CalendarCell date={date} className={look.day ?? ''} />}</CalendarGridBody>
    </CalendarGrid>
  </Calendar>
)
