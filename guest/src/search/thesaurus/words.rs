//! The words of the thesaurus: those that authors of tools and their users have in common, whatever the tools do.

/// The words of questions and of politeness: they say nothing about a tool.
pub(in super::super) const STOP_WORDS: &str = "\
    a able about after all also am an and any anyone anything are as at be been before being both but by can could d \
    did do does don each either else etc for from had has have he hello help her here hey hi him his how i if in into \
    is it its itself just let like ll m may me might more most must my need no not now of off ok on only onto or other \
    our out own please re s shall she should so some someone something such t than thank thanks that the their them \
    then there these they this those to too us use used using ve very want was we were what when where whether which \
    while who whom whose why will wish with within would you your";

/// The words that are in many questions, whatever they are about: they say little about a tool, even if it is the only
/// one that has them.
pub(in super::super) const WEAK_WORDS: &str = "\
    above accept across actual actually additionally advance afterwards again against ago allow almost along already \
    always among amount another api app application apply appropriate around ask assist assistance available avoid \
    aware away back base basic become behind believe below benefit better between big bit bring capable care carry \
    case certain certainly choice clear come common complete comprehensive concern consider contain correct couple \
    cover curious current currently decide definitely depend desire detail detailed different difficult down during \
    eager easily easy effective efficient enable engage enjoy ensure entire especially essential even ever every \
    everyone everything exact exactly example excellent exist expect experience expert extra far feature feel few \
    final finally first following form forward fourth full further furthermore gather general give go good great guide \
    happen happy hard high highly however idea imagine importance important include including individual inquire \
    instead interest interested involve keep kind know last lastly late lately later latest least less level little \
    long look lot main major many matter maybe mean meanwhile meet moment moreover much multiple necessary never next \
    nice offer often old one opportunity option original over overall part particular particularly past perfect \
    perform perhaps personal plugin point possible possibly prefer preferably prepare previous proper properly provide \
    purpose quick quickly quite range ready real realize really reason recent recently regard relate relevant reliable \
    require requirement right same say second see seek seem several short significant simple simply since situation \
    small soon special specific specifically start stay still struggle suitable support sure take tell thing think \
    third thorough thoroughly though three through today together tomorrow tonight tool total toward trouble try turn \
    two type under understand unique until up upcoming upon useful usual usually valuable various via way week well \
    whole wide without wonder work world worry worth year yes yesterday yet";

/// The groups of words with the same meaning or of one topic, one in each line: a tool for travelling may help a user who
/// asks for a train.
pub(super) const GROUPS: &str = "\
create add new make insert generate build compose produce
delete remove drop erase clear destroy purge discard
list show display view enumerate
get fetch retrieve read obtain load
search find lookup query discover locate explore browse seek
send post publish submit deliver
update edit modify change set adjust alter revise
start run execute launch begin trigger invoke
stop cancel abort terminate end kill halt
open launch access
copy duplicate clone replicate
move transfer relocate migrate
upload import ingest
download export save
store save keep persist archive
merge combine join unite concatenate
split divide separate partition
convert transform translate change
translate translation language
check verify validate confirm inspect
compare difference diff contrast
count number total
calculate compute calculator estimate
measure assess evaluate estimate
analyze analysis analytics examine inspect study insight
summarize summary digest abstract overview
explain describe clarify interpret
recommend suggest advise propose recommendation advice tip
plan schedule organize arrange
book reserve reservation booking
buy purchase order shop shopping
sell trade
pay payment checkout billing
rent lease rental
subscribe follow watch
monitor track watch observe
notify alert warn remind notification reminder
ask question answer query
chat conversation talk discuss message dialogue
call phone telephone dial
assign allocate attach
remove detach unlink
enable activate
disable deactivate
login signin authenticate authorize
register signup enroll
install deploy setup
configure setting configuration preference option
improve optimize enhance boost
fix repair correct resolve
draw paint sketch illustrate
write draft compose author
rewrite paraphrase rephrase polish
extract parse scrape
learn study education teach tutor course lesson class training
eat restaurant dining food
visit tour travel
navigate route direction path
predict forecast prediction outlook
detect recognize identify identification
classify categorize label tag
sort order rank
filter select choose pick
encrypt encode cipher
decrypt decode
compress zip pack
extract unzip unpack
picture image photo photograph pic
video movie film clip
song music track audio tune
audio sound voice speech
document file doc paper
page webpage website site
web internet online
url link address hyperlink
text string content
comment reply feedback remark
review rating opinion
task todo issue ticket
issue bug problem error defect
error exception failure fault
project workspace
repository repo codebase
code program script source
function method
branch fork
database db datastore
table sheet spreadsheet
row record entry
column field attribute
chart graph plot diagram visualization
graph network
map location place
location place position area region
address place location
trip travel journey vacation holiday itinerary tour
hotel accommodation lodging stay room
flight airline plane airport aviation
car vehicle auto automobile
house home property estate apartment realty housing
job career employment vacancy hiring occupation
company business firm corporation enterprise organization
customer client buyer consumer
user account member profile
person people contact human
product item goods merchandise
price cost fee rate
discount coupon deal promotion sale offer bargain
shop store market retailer
money currency cash fund finance
finance financial money
stock share equity ticker
crypto cryptocurrency bitcoin blockchain token coin
invest investment investing portfolio
invoice bill receipt
article post blog
latest recent newest current
calendar schedule agenda
date day
time clock hour
history past historical
statistic stats metric analytics
report summary statement
information info detail data
data dataset
status state condition
health medical medicine healthcare wellness
science research scientific
research study paper
paper publication article scholar
math mathematics arithmetic equation
word term vocabulary
definition meaning dictionary
security safety protection
vulnerability weakness exploit
password credential secret passphrase
permission access privilege right
device hardware gadget appliance
computer machine server
cluster node
container docker pod
network internet connection
log trace history
agent bot assistant chatbot
image screenshot
domain hostname dns
nearby near around close
copy paste clipboard
version release revision
shipping delivery shipment parcel package
vote poll survey
travel trip flight airline airport hotel accommodation train bus cruise car rental tourist tourism tour destination itinerary vacation holiday luggage passport visa
food restaurant recipe cook meal dinner lunch breakfast ingredient dish cuisine kitchen bake drink wine coffee nutrition grocery
finance stock bond investment portfolio crypto currency bank loan mortgage credit interest tax budget dividend market trade fund earnings
shopping product price shop store brand order cart discount coupon phone laptop furniture shoe clothes gift retail
weather forecast temperature rain snow storm wind humidity sunny climate umbrella
music song album artist concert playlist lyric band singer melody instrument spotify
movie film series actor director cinema netflix episode streaming
image photo picture draw design logo graphic illustration art paint canvas pixel background
book novel author library reading literature chapter isbn
law legal lawyer court contract regulation legislation attorney judge compliance
fitness workout exercise gym yoga muscle running weight calorie
sport football soccer basketball tennis baseball cricket league match team player score tournament
education school university course class teacher student lesson learn exam tutor homework degree
job career resume interview salary hiring recruiter vacancy employer candidate employee
map location address coordinate route direction distance navigation gps geocode latitude longitude
science research paper journal publication arxiv experiment citation scholar pubmed academic
biology gene protein dna species cell genome
math equation algebra formula calculate integral matrix geometry arithmetic
programming code developer python javascript java software debug compile function repository github git commit script
database sql query table schema index row mongodb postgres mysql redis
cloud aws azure kubernetes docker server deploy container infrastructure cluster
web website html css browser page domain hosting seo url link
search google bing engine keyword result web
email inbox mail gmail message newsletter recipient
chat slack message channel discord telegram whatsapp
calendar event meeting appointment schedule reminder invite
note memo notebook document todo
document pdf word docx paragraph page text file
spreadsheet excel sheet csv cell workbook column row
presentation slide powerpoint deck
file folder directory path disk filesystem
security vulnerability malware encryption firewall attack threat password authentication
marketing campaign advertising brand seo audience social lead customer conversion
social twitter tweet facebook instagram linkedin reddit post follower hashtag
company business startup firm industry revenue competitor ceo employee
language translate grammar english spanish french german chinese vocabulary pronunciation
writing essay text grammar paragraph copywriting draft paraphrase editor
speech voice audio podcast transcribe listen recording
device sensor light thermostat iot robot";
